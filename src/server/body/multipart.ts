import { invalid } from '../../base/errors.ts'

/** The head of a part of a form (RFC 7578). */
export interface PartHead {
  name: string
  /** Undefined for a field that is no file. */
  filename: string | undefined
}

/** What the bytes of a form were found to hold, in order. */
export type MultipartEvent =
  | { kind: 'part'; head: PartHead }
  | { kind: 'bytes'; bytes: Buffer }
  | { kind: 'partEnd' }

const LARGEST_HEAD = 8 * 1024
/** The most bytes before the first part, and of spaces after a boundary. */
const LARGEST_GAP = 1024
const MOST_PARTS = 40

/** The bytes of a form beside the contents of its parts are fewer. */
export const LARGEST_OVERHEAD = MOST_PARTS * (LARGEST_HEAD + 2 * LARGEST_GAP)

// RFC 2046, 5.1.1.
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/

/** Reads the boundary of a form's media type. Throws 400 for any other type. */
export function readBoundary(contentType: string | null): string {
  const [type = '', ...rest] = (contentType ?? '').split(';')
  const parameters = readParameters(rest.join(';'))
  const boundary = parameters?.get('boundary') ?? ''
  if (type.trim().toLowerCase() !== 'multipart/form-data' || !BOUNDARY.test(boundary))
    throw invalid('body: expected multipart/form-data with a boundary')
  return boundary
}

/** What the next bytes belong to. */
type State = 'gap' | 'boundary' | 'head' | 'content' | 'end'

/**
 * Takes a form apart while it arrives (RFC 2046, 5.1). Pieces may end anywhere. Contents are
 * handed on as they came, without a copy; only what may be the beginning of a boundary waits.
 */
export class MultipartReader {
  readonly #boundary: Buffer
  #state: State = 'gap'
  // The first boundary may stand at the very beginning, without a line end before it.
  #rest: Buffer = Buffer.from('\r\n')
  #parts = 0

  constructor(boundary: string) {
    this.#boundary = Buffer.from(`\r\n--${boundary}`)
  }

  /** Takes the next bytes. Throws 400 for what is no form, and for one with too many parts. */
  push(piece: Uint8Array): MultipartEvent[] {
    const events: MultipartEvent[] = []
    this.#rest = this.#rest.length === 0 ? toBuffer(piece) : Buffer.concat([this.#rest, piece])
    while (this.#step(events));
    // The caller may give the memory of the piece back.
    if (this.#rest.length > 0) this.#rest = Buffer.from(this.#rest)
    return events
  }

  /** Throws 400 where the last boundary has not come. */
  finish(): void {
    if (this.#state !== 'end') throw invalid('body: expected a form with its last boundary')
  }

  /** Reads as far as one state goes. Returns false when it needs more bytes. */
  #step(events: MultipartEvent[]): boolean {
    switch (this.#state) {
      case 'gap':
        return this.#skipGap()
      case 'boundary':
        return this.#readBoundaryEnd()
      case 'head':
        return this.#readHead(events)
      case 'content':
        return this.#readContent(events)
      default:
        this.#rest = Buffer.alloc(0)
        return false
    }
  }

  #skipGap(): boolean {
    const at = this.#rest.indexOf(this.#boundary)
    if (at > LARGEST_GAP || (at === -1 && this.#rest.length > LARGEST_GAP + 80))
      throw invalid('body: expected a form that begins with its boundary')
    if (at === -1) return false
    return this.#goOn('boundary', at + this.#boundary.length)
  }

  #readBoundaryEnd(): boolean {
    if (this.#rest.length < 2) return false
    if (this.#rest.toString('latin1', 0, 2) === '--') return this.#goOn('end', 2)
    const at = this.#rest.indexOf('\r\n')
    const padding = this.#rest.toString('latin1', 0, at === -1 ? LARGEST_GAP : at)
    if (padding.length === LARGEST_GAP || !/^[ \t]*\r?$/.test(padding))
      throw invalid('body: expected a line end after each boundary')
    if (at === -1) return false
    this.#parts += 1
    if (this.#parts > MOST_PARTS) throw invalid(`body: expected at most ${MOST_PARTS} parts`)
    // The line end stays: a head without lines is two line ends too.
    return this.#goOn('head', at)
  }

  #readHead(events: MultipartEvent[]): boolean {
    const at = this.#rest.indexOf('\r\n\r\n')
    if (at > LARGEST_HEAD || (at === -1 && this.#rest.length > LARGEST_HEAD))
      throw invalid(`body: expected heads of parts of at most ${LARGEST_HEAD} bytes`)
    if (at === -1) return false
    events.push({ kind: 'part', head: parsePartHead(this.#rest.subarray(0, at)) })
    // The content may be empty: the line end before its boundary is that of the head.
    return this.#goOn('content', at + 2, 2)
  }

  /** Whether the two bytes before the content were not looked at yet. */
  #skip = 0

  #readContent(events: MultipartEvent[]): boolean {
    const at = this.#rest.indexOf(this.#boundary)
    if (at === -1) {
      const kept = countPossibleStart(this.#rest, this.#boundary)
      const end = this.#rest.length - kept
      this.#pushBytes(events, end)
      return false
    }
    this.#pushBytes(events, at)
    events.push({ kind: 'partEnd' })
    return this.#goOn('boundary', this.#boundary.length)
  }

  #pushBytes(events: MultipartEvent[], end: number): void {
    const skipped = Math.min(this.#skip, end)
    if (end > skipped) events.push({ kind: 'bytes', bytes: this.#rest.subarray(skipped, end) })
    this.#skip -= skipped
    this.#rest = this.#rest.subarray(end)
  }

  #goOn(state: State, from: number, skip = 0): boolean {
    this.#state = state
    this.#skip = skip
    this.#rest = this.#rest.subarray(from)
    return true
  }
}

const toBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array) =>
  Buffer.from(buffer, byteOffset, byteLength)

/** Counts the bytes at the end that may be the beginning of the boundary. */
function countPossibleStart(bytes: Buffer, boundary: Buffer): number {
  const longest = Math.min(bytes.length, boundary.length - 1)
  for (let at = bytes.length - longest; at < bytes.length; at++) {
    if (bytes[at] !== 0x0d) continue
    const rest = bytes.length - at
    if (bytes.compare(boundary, 0, rest, at) === 0) return rest
  }
  return 0
}

function parsePartHead(bytes: Buffer): PartHead {
  const text = decodeHead(bytes)
  const lines = text.split('\r\n').filter(line => line !== '')
  const dispositions = lines.filter(line => /^content-disposition\s*:/i.test(line))
  const [disposition = ''] = dispositions
  const [type = '', ...rest] = disposition.slice(disposition.indexOf(':') + 1).split(';')
  const parameters = readParameters(rest.join(';'))
  const name = parameters?.get('name')
  if (dispositions.length !== 1 || type.trim().toLowerCase() !== 'form-data' || !parameters)
    throw invalid('body: expected parts with one Content-Disposition: form-data')
  if (name === undefined) throw invalid('body: expected parts that have a name')
  return { name: decodeName(name), filename: readFilename(parameters) }
}

function decodeHead(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw invalid('body: expected heads of parts in UTF-8')
  }
}

function readFilename(parameters: Map<string, string>): string | undefined {
  const plain = parameters.get('filename')
  return plain === undefined ? undefined : decodeName(plain)
}

// Browsers write these three so (HTML, multipart/form-data encoding algorithm).
const decodeName = (text: string): string =>
  text.replace(/%(22|0D|0A)/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))

/** Reads `; name=value; name="value"`. Returns undefined for anything else, and for a name twice. */
function readParameters(text: string): Map<string, string> | undefined {
  const found = new Map<string, string>()
  let at = 0
  while (at < text.length) {
    const start = PARAMETER.exec(text.slice(at))
    if (!start) return text.slice(at).trim() === '' ? found : undefined
    const [whole, name = '', quoted, plain = ''] = start
    if (found.has(name.toLowerCase())) return undefined
    const value = quoted === undefined ? plain : quoted.replace(/\\(["\\])/g, '$1')
    found.set(name.toLowerCase(), value)
    at += whole.length
  }
  return found
}

const PARAMETER =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a quoted value has none.
  /^[\s;]*([\w*-]{1,64})\s*=\s*(?:"((?:\\["\\]|\\(?!["\\])|[^"\\\u0000-\u001f])*)"|([^\s";]+))\s*(?:;|$)/
