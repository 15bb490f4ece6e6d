import type { AwsCredentials } from '../catalog/providers/credential.ts'
import type { Provider } from '../catalog/providers.ts'
import { toBase64Source } from '../kernel/byte-source.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import { mendWritten, stringifyWellFormed } from '../kernel/halves.ts'
import { getOwn, type Json } from '../kernel/json.ts'
import { isLargeJson, writeJsonBytes } from '../kernel/json-bytes.ts'
import type { Secret } from '../kernel/secret.ts'
import { runInTurns } from '../kernel/turns.ts'
import type { Attachment, UpstreamRequest } from '../protocols/protocol.ts'
import { FORM_TYPE, writeForm } from './authorize/form.ts'
import { signV4 } from './authorize/sigv4.ts'
import type { BodyPiece, OutgoingRequest } from './egress.ts'
import type { UpstreamWorld } from './world.ts'

/**
 * Writes a request, and adds the URL, the operator's headers and the credential. None of the
 * client's own headers are forwarded. Returns a promise only when a token has to be fetched, or when
 * the request is large, which gives others their turn; that promise rejects with
 * `provider_unavailable` when no token is granted.
 */
export function authorize(
  world: UpstreamWorld,
  provider: Provider,
  request: UpstreamRequest,
  cancellation: Cancellation,
): OutgoingRequest | Promise<OutgoingRequest> {
  const { body } = request
  const add = (body: OutgoingRequest['body']) =>
    addCredential(world, provider, buildRequest(provider, request, body), cancellation)
  const isSandbox = provider.base_url.startsWith('sandbox:')
  const { attachment } = request
  if (isSandbox && attachment)
    return { ...buildRequest(provider, request, ''), value: body, attached: attachment.source }
  if (attachment) return add(writeAttached(request, attachment))
  if (request.files && !isSandbox) return add(writeForm(request, request.files))
  if (request.method) return add('')
  if (!isLargeJson(body)) {
    const json = JSON.stringify(body)
    return add(json.includes('\\ud') ? mendWritten(json) : json)
  }
  // The sandbox reads the value itself: written and read again it would be there three times.
  if (isSandbox) return { ...buildRequest(provider, request, ''), value: body }
  return runInTurns(writeJsonBytes(body, mendWritten)).then(add)
}

/** A request that continues another one: to a whole URL, at an address that was checked. */
interface Continuation {
  url: string
  address?: string
  /** A GET without one. */
  body?: Json | undefined
}

/**
 * Builds a request that continues another one, with the operator's headers and the credential.
 * Returns and rejects as `authorize` does.
 */
export function authorizeUrl(
  world: UpstreamWorld,
  provider: Provider,
  { body, ...where }: Continuation,
  cancellation: Cancellation,
): OutgoingRequest | Promise<OutgoingRequest> {
  const built = buildRequest(
    provider,
    { path: '', body: {} },
    body ? stringifyWellFormed(body) : '',
  )
  const method = body ? 'POST' : 'GET'
  return addCredential(world, provider, { ...built, ...where, method }, cancellation)
}

/** Writes a body with its attachment, which is read while it is sent. */
function writeAttached(request: UpstreamRequest, { as, source }: Attachment): BodyPiece[] {
  if (as === 'body') return [source]
  if ('field' in as) return writeForm(request, request.files ?? [])
  const json = stringifyWellFormed(request.body)
  // In a text of a caller the quotes would be escaped.
  const [before = '', after = ''] = json.split(`"${as.marker}"`)
  const encode = (text: string) => new TextEncoder().encode(text)
  return [encode(`${before}"`), toBase64Source(source), encode(`"${after}`)]
}

/** Returns the media type of a request. */
function getContentType({ files, attachment }: UpstreamRequest): string {
  if (attachment?.as === 'body') return attachment.media_type
  const isForm = files || (attachment && 'field' in (attachment.as as object))
  return isForm ? FORM_TYPE : 'application/json'
}

function addCredential(
  world: UpstreamWorld,
  provider: Provider,
  outgoing: OutgoingRequest,
  cancellation: Cancellation,
): OutgoingRequest | Promise<OutgoingRequest> {
  const { auth, api_key, aws, service_account } = provider
  switch (auth) {
    case 'bearer':
      return api_key ? addHeader(outgoing, 'authorization', `Bearer ${api_key.reveal()}`) : outgoing
    case 'x-api-key':
    case 'api-key':
    case 'x-goog-api-key':
    case 'xi-api-key':
    case 'x-key':
      return api_key ? addHeader(outgoing, auth, api_key.reveal()) : outgoing
    case 'token':
      return api_key ? addHeader(outgoing, 'authorization', `Token ${api_key.reveal()}`) : outgoing
    case 'key':
      return api_key ? addHeader(outgoing, 'authorization', `Key ${api_key.reveal()}`) : outgoing
    case 'sigv4':
      return aws ? signRequest(outgoing, aws, world.clock.now()) : outgoing
    case 'google-service-account':
      return service_account
        ? addToken(
            outgoing,
            cancellation.awaitUnlessCancelled(world.egress.accessTokens.getToken(service_account)),
          )
        : outgoing
    case 'none':
      return outgoing
  }
}

function buildRequest(
  provider: Provider,
  request: UpstreamRequest,
  body: OutgoingRequest['body'],
): OutgoingRequest {
  const headers: Record<string, string> = {
    'content-type': getContentType(request),
    'user-agent': 'gateway',
  }
  if (request.headers) Object.assign(headers, request.headers)
  for (const name in provider.headers) headers[name] = provider.headers[name] ?? ''
  const { method } = request
  return { ...(method ? { method } : {}), url: buildUrl(provider, request), headers, body }
}

function buildUrl({ base_url }: Provider, { path, hosts }: UpstreamRequest): string {
  if (!hosts) return base_url + path
  const url = new URL(base_url)
  const host = getOwn(hosts, url.host)
  return host === undefined ? base_url + path : base_url.replace(url.host, host) + path
}

function addHeader(outgoing: OutgoingRequest, name: string, value: string): OutgoingRequest {
  outgoing.headers[name] = value
  return outgoing
}

/** The service name in signatures for Bedrock, whatever the host is called. */
const AWS_SERVICE = 'bedrock'

function signRequest(outgoing: OutgoingRequest, aws: AwsCredentials, now: Date): OutgoingRequest {
  Object.assign(
    outgoing.headers,
    // No request that is signed has a file.
    signV4(
      { method: 'POST', ...outgoing, body: listBytes(outgoing.body) },
      aws,
      aws.region,
      AWS_SERVICE,
      now,
    ),
  )
  return outgoing
}

const listBytes = (body: OutgoingRequest['body']): string | Uint8Array[] =>
  typeof body === 'string' ? body : body.filter(piece => piece instanceof Uint8Array)

const addToken = async (
  outgoing: OutgoingRequest,
  token: Promise<Secret>,
): Promise<OutgoingRequest> =>
  addHeader(outgoing, 'authorization', `Bearer ${(await token).reveal()}`)
