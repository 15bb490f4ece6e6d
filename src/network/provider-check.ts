import { Cancellation } from '../base/cancellation.ts'
import { GatewayError, invalid, notFound } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import type { CatalogWorld } from '../resources/catalog-world.ts'
import type { Provider } from '../resources/providers/provider.ts'
import { Deadline } from './answer.ts'
import { authorize } from './authorize.ts'
import type { UpstreamWorld } from './world.ts'

/** What a check needs: the catalogue and egress. */
type CheckWorld = CatalogWorld & UpstreamWorld

/** The result of checking a provider with a request that costs nothing. */
export interface ProviderCheck {
  provider: string
  /** The name of the credential, where the provider has several. */
  credential?: string
  /** Null when only a call that costs something could decide it. */
  ok: boolean | null
  /** The status of its answer; null when it did not answer. */
  status: number | null
  milliseconds: number | null
  /** What is wrong, or why the check could not decide. */
  error: string | null
}

/**
 * Checks every configured provider, or the given ones, with a request that is free and needs the
 * credential: its list of models, or an access token. Each has `milliseconds` to answer. Throws 404
 * for an unknown provider, 400 for one that is not configured.
 */
export async function checkProviders(
  world: CheckWorld,
  slugs: string[],
  milliseconds: number,
): Promise<{ data: ProviderCheck[] }> {
  const providers =
    slugs.length > 0
      ? slugs.map(slug => getConfiguredProvider(world, slug))
      : listConfiguredProviders(world)
  return {
    data: await Promise.all(
      providers.flatMap(provider => checkCredentials(world, provider, milliseconds)),
    ),
  }
}

// The sandbox runs in this process, so there is nothing to check.
const listConfiguredProviders = ({ catalog }: CheckWorld): Provider[] =>
  [...catalog.providers.values()].filter(
    provider => provider.configured && provider.protocol !== 'sandbox',
  )

function getConfiguredProvider({ catalog }: CheckWorld, slug: string): Provider {
  const provider = catalog.providers.get(slug)
  if (!provider)
    throw notFound(`${JSON.stringify(slug.slice(0, 200))} is not a provider of this gateway`)
  if (!provider.configured) throw invalid(`${slug}: expected a provider that is configured`)
  return provider
}

const checkCredentials = (
  world: CheckWorld,
  provider: Provider,
  milliseconds: number,
): Promise<ProviderCheck>[] =>
  provider.pool
    ? provider.pool.credentials.map(async ({ name, provider: asked }) => ({
        ...(await checkProvider(world, asked, milliseconds)),
        credential: name,
      }))
    : [checkProvider(world, provider, milliseconds)]

type Verdict = Pick<ProviderCheck, 'ok' | 'status' | 'error'>

async function checkProvider(
  world: CheckWorld,
  provider: Provider,
  milliseconds: number,
): Promise<ProviderCheck> {
  const { slug } = provider
  const probe = pickProbe(provider)
  if (!probe)
    return {
      provider: slug,
      ok: null,
      status: null,
      milliseconds: null,
      error: 'cannot be checked without cost',
    }
  const startedAt = world.clock.ticks()
  const verdict = await probe(world, provider, milliseconds).catch(thrown =>
    judgeFailure(thrown, milliseconds),
  )
  return { provider: slug, ...verdict, milliseconds: Math.round(world.clock.ticks() - startedAt) }
}

/** Sends a free request to a provider. Throws when there is no answer. */
type Probe = (world: CheckWorld, provider: Provider, milliseconds: number) => Promise<Verdict>

function pickProbe({ auth, protocol, base_url }: Provider): Probe | undefined {
  if (auth === 'google-service-account') return probeToken
  return findModelList(protocol, base_url) ? probeModels : undefined
}

const ACCEPTED: Verdict = { ok: true, status: 200, error: null }
const buildFailure = (status: number | null, error: string): Verdict => ({
  ok: false,
  status,
  error,
})

const buildUnknown = (status: number, error: string): Verdict => ({ ok: null, status, error })

async function probeToken(
  { egress: { accessTokens } }: CheckWorld,
  { service_account }: Provider,
  milliseconds: number,
): Promise<Verdict> {
  if (!service_account) return buildFailure(null, 'has no service account')
  const deadline = startDeadline(milliseconds)
  try {
    await deadline.attempt.awaitUnlessCancelled(accessTokens.getToken(service_account))
    return ACCEPTED
  } catch {
    if (deadline.attempt.reason) throw deadline.attempt.reason
    return buildFailure(null, 'no access token is granted to the service account')
  } finally {
    deadline.close()
  }
}

const startDeadline = (milliseconds: number): Deadline =>
  new Deadline(new Cancellation(), {
    firstByte: milliseconds,
    idle: milliseconds,
    total: milliseconds,
  })

// Some providers list their models without a credential. Such a list does not prove one.
async function probeModels(
  world: CheckWorld,
  provider: Provider,
  milliseconds: number,
): Promise<Verdict> {
  const { status, isList } = await fetchModelList(world, provider, milliseconds)
  if (status !== 200) return judgeStatus(status)
  if (!isList) return buildFailure(status, 'the answer is no list of models: is base_url right?')
  if (provider.auth === 'none') return ACCEPTED
  const anonymous = await fetchModelList(world, { ...provider, auth: 'none' }, milliseconds).catch(
    () => undefined,
  )
  return anonymous?.isList
    ? buildUnknown(
        status,
        'answers; lists its models without a credential, so that was not checked',
      )
    : ACCEPTED
}

function judgeStatus(status: number): Verdict {
  if (status === 401 || status === 403) return buildFailure(status, 'the credential is refused')
  if (NO_LIST_STATUSES.has(status))
    return buildUnknown(
      status,
      'has no list of models at its base_url: cannot be checked without cost',
    )
  return buildFailure(status, `answers with ${status}`)
}

const NO_LIST_STATUSES = new Set([404, 405, 501])

/**
 * Returns the URL and headers of a provider's list of models, limited to one model where possible.
 * Returns undefined when its protocol documents no such list.
 */
function findModelList(
  protocol: string,
  base_url: string,
): { url: string; headers?: Record<string, string> } | undefined {
  switch (protocol) {
    case 'openai-chat':
    case 'openai-responses':
      return { url: `${base_url}/models` }
    case 'anthropic-messages':
      return { url: `${base_url}/models?limit=1`, headers: { 'anthropic-version': '2023-06-01' } }
    case 'gemini':
      // Vertex AI lists the models of its publishers elsewhere.
      return base_url.includes('/publishers/')
        ? undefined
        : { url: `${base_url}/models?pageSize=1` }
    case 'cohere-chat':
      return { url: `${base_url.replace(/\/v2$/, '/v1')}/models?page_size=1` }
    default:
      return undefined
  }
}

const LARGEST_LIST = 16 * 1024 * 1024

async function fetchModelList(
  world: CheckWorld,
  provider: Provider,
  milliseconds: number,
): Promise<{ status: number; isList: boolean }> {
  const { url = '', headers = {} } = findModelList(provider.protocol, provider.base_url) ?? {}
  const deadline = startDeadline(milliseconds)
  try {
    const outgoing = await authorize(
      world,
      { ...provider, base_url: url },
      { path: '', headers, body: {} },
      deadline.attempt,
    )
    const incoming = await world.egress.send(
      { ...outgoing, method: 'GET', body: '' },
      deadline.attempt,
    )
    const text =
      incoming.status === 200 ? await incoming.text(LARGEST_LIST, size => deadline.touch(size)) : ''
    return { status: incoming.status, isList: isList(text) }
  } catch (thrown) {
    throw deadline.toGatewayError(thrown)
  } finally {
    deadline.abort()
  }
}

function isList(text: string): boolean {
  try {
    const answer: unknown = JSON.parse(text)
    return (
      Array.isArray(answer) ||
      (isObject(answer) && (Array.isArray(answer.data) || Array.isArray(answer.models)))
    )
  } catch {
    return false
  }
}

function judgeFailure(thrown: unknown, milliseconds: number): Verdict {
  const { type, cause } = GatewayError.from(thrown)
  if (type === 'timeout')
    return buildFailure(null, `no answer within ${milliseconds / 1000} seconds`)
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
  return buildFailure(null, code ? `the connection failed: ${code}` : 'the answer cannot be read')
}
