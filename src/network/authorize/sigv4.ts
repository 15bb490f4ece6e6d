import { compareTexts } from '../../base/sorting.ts'
import type { AwsCredentials } from '../../resources/providers/provider.ts'

/** A request as it goes on the wire, without the host header. */
export interface SignableRequest {
  method: string
  url: string
  headers: Record<string, string>
  /** Whole, in pieces of a large one, or only its hash. */
  body: string | Uint8Array[] | BodyHash
}

/** The hash of a body that is read while it is sent, in hexadecimal digits. */
export interface BodyHash {
  sha256: string
}

const ALGORITHM = 'AWS4-HMAC-SHA256'

/** The service whose paths are keys: encoded once, and with every slash (AWS, "Signature V4"). */
const S3 = 's3'

/** Headers that an intermediary may change. */
const UNSIGNED = new Set([
  'authorization',
  'connection',
  'expect',
  'transfer-encoding',
  'user-agent',
])

/**
 * Returns the headers that sign a request (AWS Signature Version 4, with the signature in a
 * header): `authorization`, `x-amz-date`, for temporary credentials `x-amz-security-token`, and for
 * S3 `x-amz-content-sha256`.
 */
export function signV4(
  request: SignableRequest,
  credentials: Pick<AwsCredentials, 'access_key_id' | 'secret_access_key' | 'session_token'>,
  region: string,
  service: string,
  now: Date,
): Record<string, string> {
  const time = now.toISOString().replace(/[-:]|\.\d+/g, '')
  const scope = `${time.slice(0, 8)}/${region}/${service}/aws4_request`
  const added: Record<string, string> = { 'x-amz-date': time }
  if (credentials.session_token) added['x-amz-security-token'] = credentials.session_token.reveal()
  const bodyHash = hashBody(request.body)
  if (service === S3) added['x-amz-content-sha256'] = bodyHash
  const renderPath = service === S3 ? renderObjectPath : renderCanonicalPath
  const { text, signedHeaders } = buildCanonicalRequest(request, added, bodyHash, renderPath)
  const key = deriveSigningKey(credentials.secret_access_key.reveal(), scope)
  const signature = computeHmac(
    key,
    `${ALGORITHM}\n${time}\n${scope}\n${hashSha256(text)}`,
  ).toString('hex')
  const fields = [
    `Credential=${credentials.access_key_id}/${scope}`,
    `SignedHeaders=${signedHeaders}`,
    `Signature=${signature}`,
  ]
  return { ...added, authorization: `${ALGORITHM} ${fields.join(', ')}` }
}

/** Builds the canonical request that both sides hash. */
function buildCanonicalRequest(
  { method, url, headers }: SignableRequest,
  added: Record<string, string>,
  bodyHash: string,
  renderPath: (pathname: string) => string,
): { text: string; signedHeaders: string } {
  const { host, pathname, searchParams } = new URL(url)
  const sortedHeaders = sortByName(
    Object.entries({ ...headers, ...added, host }).map(([name, value]) => [
      name.toLowerCase(),
      collapseSpaces(value),
    ]),
  )
  const signedPairs = sortedHeaders.filter(([name]) => !UNSIGNED.has(name))
  const signedHeaders = signedPairs.map(([name]) => name).join(';')
  const lines = signedPairs.map(([name, value]) => `${name}:${value}\n`).join('')
  const text = [
    method,
    renderPath(pathname),
    renderCanonicalQuery(searchParams),
    lines,
    signedHeaders,
    bodyHash,
  ].join('\n')
  return { text, signedHeaders }
}

// A segment is encoded a second time: a model's `:` is `%3A` on the wire and `%253A` here.
const renderCanonicalPath = (pathname: string) =>
  pathname
    .replace(/\/{2,}/g, '/')
    .split('/')
    .map(encodeRfc3986)
    .join('/')

const renderObjectPath = (pathname: string) => pathname

const renderCanonicalQuery = (query: URLSearchParams) =>
  sortByName([...query].map(([name, value]) => [encodeRfc3986(name), encodeRfc3986(value)]))
    .map(([name, value]) => `${name}=${value}`)
    .join('&')

// By name, then by value, both by code unit: a locale would sort differently.
const sortByName = (pairs: [string, string][]) =>
  pairs.sort((a, b) => compareTexts(a[0], b[0]) || compareTexts(a[1], b[1]))

const collapseSpaces = (value: string) => value.trim().replace(/ {2,}/g, ' ')

/** Percent-encodes a text (RFC 3986): only letters, digits and `-._~` stay. */
const encodeRfc3986 = (text: string) =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    letter => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  )

const deriveSigningKey = (secret: string, scope: string) =>
  scope.split('/').reduce<string | Buffer>(computeHmac, `AWS4${secret}`)

const computeHmac = (key: string | Buffer, text: string): Buffer =>
  new Bun.CryptoHasher('sha256', key).update(text).digest()

function hashBody(body: SignableRequest['body']): string {
  if (typeof body === 'string') return hashSha256(body)
  if ('sha256' in body) return body.sha256
  const hasher = new Bun.CryptoHasher('sha256')
  for (const piece of body) hasher.update(piece)
  return hasher.digest('hex')
}

const hashSha256 = (text: string) => new Bun.CryptoHasher('sha256').update(text).digest('hex')
