import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { createApp } from '../../src/server/app.ts'
import { openDatabase } from './database.ts'

export interface ApiRequest {
  /** Sent as JSON unless it is a string. */
  body?: unknown
  /** Null sends no key. */
  key?: string | null
  headers?: Record<string, string>
}

/** Creates a function that calls the API of a gateway in this process, by default with this key. */
export function createApi(gateway: Gateway, usual: string) {
  // Not every test that has one calls it.
  let app: ReturnType<typeof createApp> | undefined
  return async (
    method: string,
    path: string,
    { body, key = usual, headers: more }: ApiRequest = {},
  ) => {
    const headers: Record<string, string> = { 'content-type': 'application/json', ...more }
    if (key !== null) headers.authorization = `Bearer ${key}`
    const init = {
      method,
      headers,
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    }
    app ??= createApp(gateway)
    const response = await app.handle(new Request(`http://localhost/api/v1${path}`, init))
    return { status: response.status, json: await response.json() }
  }
}

/** Returns the status that a promise rejects with; undefined if it resolves. */
export const readRefusalStatus = (promise: Promise<unknown>): Promise<number | undefined> =>
  promise.then(
    () => undefined,
    thrown => GatewayError.from(thrown).status,
  )

/** Reads the audit trail of a data directory, oldest first, as actions and resources. */
export function readTrail(data: string): string[] {
  const db = openDatabase(data, { readonly: true })
  const rows = db.query('select action, resource_id from audit order by rowid').all() as {
    action: string
    resource_id: string
  }[]
  db.close()
  return rows.map(row => `${row.action} ${row.resource_id}`)
}
