import type { Gateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createScimToken } from '../../src/resources/scim/tokens.ts'
import { createApp } from '../../src/server/app.ts'

export const USER_ID = 'urn:ietf:params:scim:schemas:core:2.0:User'
export const GROUP_ID = 'urn:ietf:params:scim:schemas:core:2.0:Group'
export const ENTERPRISE = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'
export const PATCH_OP = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'
export const SEARCH = 'urn:ietf:params:scim:api:messages:2.0:SearchRequest'
export const ERROR = 'urn:ietf:params:scim:api:messages:2.0:Error'

/** An answer with its body as JSON, if it has one. */
export interface ScimAnswer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: identity providers read answers without types.
  body: any
}

/** An identity provider that calls the SCIM API of a gateway in this process. */
export class IdentityProvider {
  readonly #app: ReturnType<typeof createApp>
  readonly token: string

  constructor(gateway: Gateway, token: string) {
    this.#app = createApp(gateway)
    this.token = token
  }

  /** Sends a request, with the provider's token by default. */
  async ask(
    method: string,
    path: string,
    json?: unknown,
    { headers = {}, token = this.token }: ScimOptions = {},
  ): Promise<ScimAnswer> {
    const all: Record<string, string> = { 'content-type': 'application/scim+json', ...headers }
    if (token !== null) all.authorization = `Bearer ${token}`
    const body =
      json === undefined ? {} : { body: typeof json === 'string' ? json : JSON.stringify(json) }
    const response = await this.#app.handle(
      new Request(`http://gateway.test/api/v1/scim/v2${path}`, { method, headers: all, ...body }),
    )
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? null : JSON.parse(text),
    }
  }

  /** Creates a user and returns its id. */
  async user(userName: string, more: object = {}): Promise<string> {
    return readCreatedId(
      await this.ask('POST', '/Users', { schemas: [USER_ID], userName, ...more }),
    )
  }

  /** Creates a group with these members and returns its id. */
  async group(displayName: string, ...members: string[]): Promise<string> {
    return readCreatedId(
      await this.ask('POST', '/Groups', {
        schemas: [GROUP_ID],
        displayName,
        members: members.map(value => ({ value })),
      }),
    )
  }

  patch = (path: string, ...Operations: object[]): Promise<ScimAnswer> =>
    this.ask('PATCH', path, { schemas: [PATCH_OP], Operations })
}

export interface ScimOptions {
  headers?: Record<string, string>
  token?: string | null
}

function readCreatedId({ status, body }: ScimAnswer): string {
  if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body.id
}

/** Opens an identity provider with a new token of this gateway. */
export async function openIdentityProvider(gateway: Gateway): Promise<IdentityProvider> {
  const { token } = await createScimToken(gateway, getOperator(gateway), { name: 'test' })
  return new IdentityProvider(gateway, token)
}
