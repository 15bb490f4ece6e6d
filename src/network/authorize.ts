import { toBase64Source } from '../base/byte-source.ts'
import type { Cancellation } from '../base/cancellation.ts'
import { parseDataUrl } from '../base/data-url.ts'
import { getOwn, isLargeJson, type Json, writeJsonBytes } from '../base/json.ts'
import { mendWritten, stringifyWellFormed } from '../base/printable.ts'
import type { Secret } from '../base/secret.ts'
import { runInTurns } from '../base/turns.ts'
import type { AwsCredentials, Provider } from '../resources/providers/provider.ts'
import type { Attachment, UpstreamRequest } from '../translation/protocols/protocol.ts'
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

/** No part contains the boundary: it is random, and chosen when the process starts. */
const BOUNDARY = `gateway-${crypto.randomUUID()}`

/** The content type of the forms below. */
export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`

/**
 * Writes a body as a form (RFC 7578). The fields in `files` hold lists of data URLs, each of which
 * becomes a file of its bytes; every other value is a text, or JSON if it is none, and a list is a
 * field for each of its items. Each piece has memory of its own, so that it can be given back once
 * it is sent. The file of an attachment comes last and is read while it is sent. Throws `invalid_image` for a
 * data URL that cannot be read.
 */
export function writeForm({ body, attachment }: UpstreamRequest, files: string[]): BodyPiece[] {
  const pieces: BodyPiece[] = []
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue
    if (files.includes(name))
      pieces.push(...listUrls(value).flatMap((url, i) => writeFile(name, url, i)))
    else
      for (const one of Array.isArray(value) ? value : [value])
        pieces.push(toBytes(`${writeHead(name)}\r\n${renderText(one)}\r\n`))
  }
  if (attachment) pieces.push(...writeAttachment(attachment))
  return [...pieces, toBytes(`--${BOUNDARY}--\r\n`)]
}

function writeAttachment({ as, filename, media_type, source }: Attachment): BodyPiece[] {
  if (typeof as === 'string' || !('field' in as)) return []
  const head = writeHead(as.field, `; filename="${filename}"`)
  return [toBytes(`${head}content-type: ${media_type}\r\n\r\n`), source, toBytes('\r\n')]
}

const listUrls = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : [])

const renderText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)

function writeFile(name: string, url: string, position: number): Uint8Array[] {
  const { media_type, data } = parseDataUrl(url)
  const extension = media_type.split('/')[1]?.replace(/\+.*$/, '') ?? 'bin'
  const file = `; filename="${name.replace(/\W/g, '')}-${position}.${extension}"`
  const head = `${writeHead(name, file)}content-type: ${media_type}\r\n\r\n`
  return [toBytes(head), decode(data), toBytes('\r\n')]
}

const writeHead = (name: string, file = ''): string =>
  `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${name}"${file}\r\n`

// Not from the pool, which other buffers share.
function decode(data: string): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(data, 'base64'))
  return bytes.subarray(0, bytes.write(data, 'base64'))
}

const toBytes = (text: string): Uint8Array => new TextEncoder().encode(text)
