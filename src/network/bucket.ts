import type { ByteRange, ByteSource } from '../base/byte-source.ts'
import type { Clock } from '../base/clock.ts'
import { GatewayError, unavailable } from '../base/errors.ts'
import { isObject, readString } from '../base/json.ts'
import { Secret } from '../base/secret.ts'
import type { BucketConfig } from '../config/storage.ts'
import { type BodyHash, signV4 } from './authorize/sigv4.ts'
import type { IncomingResponse, Send } from './egress.ts'
import { Patience } from './patience.ts'

/** What a bucket needs from the gateway. */
export interface BucketWorld {
  send: Send
  clock: Pick<Clock, 'now'>
  /** Milliseconds without a byte, either way, after which a request is given up. */
  readPatience: () => number
}

/** An object as a list has it. */
interface StoredObject {
  key: string
  size: number
}

/**
 * A bucket of S3, or of what speaks its protocol. Keys have letters, digits and `./_-` only. All
 * methods throw 503 where the service cannot be reached or refuses, with the code that it gives.
 */
export interface Bucket {
  /** Writes an object, as a whole or not at all. `sha256` of its bytes is verified there. */
  put(key: string, source: ByteSource, sha256: string): Promise<void>
  /** Reads bytes of an object piece by piece. Throws an `Error` where there is none. */
  read(key: string, range: ByteRange): AsyncIterable<Uint8Array>
  /** Deletes an object, if there is one. */
  remove(key: string): Promise<void>
  /** Lists the objects whose keys begin so, by their keys. */
  list(prefix: string): AsyncIterable<StoredObject>
  /** Finds an object. */
  find(key: string): Promise<StoredObject | undefined>
}

/** How often a request is sent that gets no usable answer. All of them may be repeated. */
const ATTEMPTS = 3
const LARGEST_ANSWER = 4 * 1024 * 1024

/**
 * Opens a bucket. Nothing is sent before the first use. Requests go through the egress: they follow
 * no redirect, and the environment decides nothing.
 */
export function openBucket(world: BucketWorld, config: BucketConfig): Bucket {
  const ask = (request: BucketRequest) => askBucket(world, config, request)
  const listPage = async (query: Record<string, string>) =>
    parseList(await ask({ query: { 'list-type': '2', ...query } }))
  return {
    put: async (key, source, sha256) => void (await ask({ method: 'PUT', key, source, sha256 })),
    read: (key, range) => readObject(world, config, key, range),
    remove: async key => void (await ask({ method: 'DELETE', key, isGoneFine: true })),
    async *list(prefix) {
      let page = await listPage({ prefix })
      yield* page.objects
      while (page.next !== undefined) {
        page = await listPage({ prefix, 'continuation-token': page.next })
        yield* page.objects
      }
    },
    async find(key) {
      return (await listPage({ prefix: key })).objects.find(object => object.key === key)
    },
  }
}

interface BucketRequest {
  method?: 'GET' | 'PUT' | 'DELETE'
  key?: string
  query?: Record<string, string>
  source?: ByteSource
  sha256?: string
  range?: ByteRange
  /** Whether a missing object is the wanted outcome. */
  isGoneFine?: boolean
}

/** Sends a request until it has a usable answer, and returns that as a text. */
async function askBucket(
  world: BucketWorld,
  config: BucketConfig,
  request: BucketRequest,
): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const patience = new Patience(world.readPatience(), SILENT)
    try {
      const answer = await send(world, config, request, patience)
      const text = await answer.text(LARGEST_ANSWER, () => patience.renew())
      if (answer.status < 300 || (answer.status === 404 && request.isGoneFine)) return text
      throw new BucketRefusal(answer.status, readCode(text))
    } catch (thrown) {
      if (attempt === ATTEMPTS || isFinal(thrown)) throw explain(thrown)
    } finally {
      patience.end()
    }
  }
}

/** Reads bytes of an object as they come. A reader that leaves closes the connection. */
async function* readObject(
  world: BucketWorld,
  config: BucketConfig,
  key: string,
  range: ByteRange,
): AsyncIterable<Uint8Array> {
  if (range.length === 0) return
  const patience = new Patience(world.readPatience(), SILENT)
  try {
    const answer = await send(world, config, { key, range }, patience)
    if (answer.status === 404) throw new Error('There is no such object')
    if (answer.status !== 206 && answer.status !== 200)
      throw new BucketRefusal(answer.status, readCode(await answer.text(LARGEST_ANSWER, () => {})))
    yield* takeRange(answer, answer.status === 200 ? range.start : 0, range.length, patience)
  } catch (thrown) {
    throw explain(thrown)
  } finally {
    patience.end()
  }
}

/** Yields so many bytes behind those that are skipped. Throws where there are fewer. */
async function* takeRange(
  answer: IncomingResponse,
  skipped: number,
  length: number,
  patience: Patience,
): AsyncIterable<Uint8Array> {
  let [skip, left] = [skipped, length]
  while (left > 0) {
    const bytes = await answer.read()
    if (bytes === null) throw new Error('An object that is shorter than it was')
    const wanted = bytes.subarray(skip, skip + left)
    skip -= Math.min(skip, bytes.length)
    left -= wanted.length
    // A reader may take its time: only the service’s silence counts.
    patience.rest()
    if (wanted.length > 0) yield wanted
    patience.renew()
  }
}

function send(
  { send, clock }: BucketWorld,
  config: BucketConfig,
  { method = 'GET', key, query = {}, source, sha256, range }: BucketRequest,
  patience: Patience,
): Promise<IncomingResponse> {
  const search = new URLSearchParams(query).toString().replaceAll('+', '%20')
  const url = `${findAddress(config)}${key === undefined ? '' : `/${key}`}${search && `?${search}`}`
  const headers: Record<string, string> = range
    ? { range: `bytes=${range.start}-${range.start + range.length - 1}` }
    : {}
  const body: '' | BodyHash = sha256 === undefined ? '' : { sha256 }
  const signature = signV4(
    { method, url, headers, body },
    {
      access_key_id: config.access_key_id,
      secret_access_key: new Secret(config.secret_access_key),
      session_token: config.session_token === undefined ? null : new Secret(config.session_token),
    },
    ...([config.region, 's3', clock.now()] as const),
  )
  return send(
    {
      ...{ method, url, headers: { ...headers, ...signature } },
      body: source && source.size > 0 ? [patience.watch(source)] : '',
    },
    patience.cancellation,
  )
}

const findAddress = ({ endpoint, region, bucket }: BucketConfig): string =>
  `${(endpoint ?? `https://s3.${region}.amazonaws.com`).replace(/\/+$/, '')}/${bucket}`

const SILENT = unavailable('The storage of files does not answer')

/** What the service has refused. */
class BucketRefusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string) {
    super(`${code} (${status})`)
    this.status = status
    this.code = code
  }
}

/** Whether the same request would get the same answer. */
const isFinal = (thrown: unknown): boolean =>
  thrown === SILENT || (thrown instanceof BucketRefusal && thrown.status < 500)

function explain(thrown: unknown): unknown {
  if (thrown instanceof GatewayError) return thrown
  if (thrown instanceof BucketRefusal)
    return unavailable(`The storage of files refuses: ${thrown.message}`, 60, thrown)
  if (thrown instanceof Error && 'code' in thrown)
    return unavailable(`The storage of files cannot be reached: ${thrown.code}`, 5, thrown)
  return thrown
}

/** Reads the code of an error of S3: a word, or what stands for any other text. */
function readCode(text: string): string {
  const code = readMember(parseXml(text).Error, 'Code')
  return code !== null && /^\w{1,64}$/.test(code) ? code : 'no code'
}

interface List {
  objects: StoredObject[]
  next: string | undefined
}

/** Parses an answer to ListObjectsV2. Throws 503 for anything else. */
function parseList(text: string): List {
  const list = parseXml(text).ListBucketResult
  if (!isObject(list)) throw unavailable('The storage of files refuses: no list')
  const next = list.IsTruncated === 'true' ? readString(list.NextContinuationToken) : null
  return {
    objects: toArray(list.Contents).map(entry => ({
      key: readMember(entry, 'Key') ?? '',
      size: Number(readMember(entry, 'Size') ?? Number.NaN),
    })),
    next: next ?? undefined,
  }
}

function parseXml(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = Bun.XML.parse(text)
    return isObject(parsed) ? parsed : {}
  } catch {
    return {}
  }
}

const readMember = (value: unknown, name: string): string | null =>
  isObject(value) ? readString(value[name]) : null

const toArray = (value: unknown): unknown[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value]
