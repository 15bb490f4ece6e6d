/** The unread bytes of a connection. Reads wait for bytes until the peer is gone. */
export class Inbox {
  #pending: Buffer[] = []
  #size = 0
  #isOver = false
  #wake = () => {}

  push(bytes: Buffer) {
    this.#pending.push(bytes)
    this.#size += bytes.length
    this.#wake()
  }

  /** Marks the end of the input. */
  end() {
    this.#isOver = true
    this.#wake()
  }

  /** Reads up to and including `marker`; null if the peer left without sending it. */
  async until(marker: string): Promise<Buffer | null> {
    for (;;) {
      const at = this.#joined().indexOf(marker)
      if (at >= 0) return this.#cut(at + marker.length)
      if (this.#isOver) return null
      await this.#more()
    }
  }

  /** Reads exactly `count` bytes, or what there is if the peer left earlier. */
  async take(count: number): Promise<Buffer> {
    while (this.#size < count && !this.#isOver) await this.#more()
    return this.#cut(Math.min(count, this.#size))
  }

  #more(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #joined(): Buffer {
    const [first] = this.#pending
    const all = first && this.#pending.length === 1 ? first : Buffer.concat(this.#pending)
    this.#pending = [all]
    return all
  }

  #cut(count: number): Buffer {
    const all = this.#joined()
    this.#pending = [all.subarray(count)]
    this.#size -= count
    return all.subarray(0, count)
  }
}

/**
 * The first line and headers of an HTTP/1.1 message. Names are lower case; repeated ones are
 * joined.
 */
export type Head = { line: string; headers: Record<string, string> }

/** The received body of a message. `complete` is false if the framing promised more. */
export type Body = { bytes: Buffer; complete: boolean }

/** Reads a message's head; null if the peer left before its blank line. */
export async function readHead(inbox: Inbox): Promise<Head | null> {
  const bytes = await inbox.until('\r\n\r\n')
  if (!bytes) return null
  const [line = '', ...fields] = bytes.toString('latin1').slice(0, -4).split('\r\n')
  return { line, headers: readHeaders(fields) }
}

function readHeaders(fields: string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const field of fields) {
    const colon = field.indexOf(':')
    const name = field.slice(0, colon).trim().toLowerCase()
    const value = field.slice(colon + 1).trim()
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value
  }
  return headers
}

/**
 * Reads the body a head announces: chunked, of a length, or null when the head announces neither.
 */
export async function readBody(inbox: Inbox, { headers }: Head): Promise<Body | null> {
  if (headers['transfer-encoding']?.toLowerCase() === 'chunked') return readChunked(inbox)
  const length = headers['content-length']
  if (length === undefined) return null
  const bytes = await inbox.take(Number(length))
  return { bytes, complete: bytes.length === Number(length) }
}

async function readChunked(inbox: Inbox): Promise<Body> {
  const parts: Buffer[] = []
  for (;;) {
    const size = await readChunkSize(inbox)
    if (size === 0) return { bytes: Buffer.concat(parts), complete: await readTrailer(inbox) }
    const part = await inbox.take(size + 2)
    parts.push(part.subarray(0, size))
    if (part.length < size + 2) return { bytes: Buffer.concat(parts), complete: false }
  }
}

// A missing or invalid size means a truncated body: it reads as an endless chunk.
async function readChunkSize(inbox: Inbox): Promise<number> {
  const line = await inbox.until('\r\n')
  const size = Number.parseInt(line?.toString() ?? '', 16)
  return Number.isNaN(size) ? Number.POSITIVE_INFINITY : size
}

async function readTrailer(inbox: Inbox): Promise<boolean> {
  for (;;) {
    const line = await inbox.until('\r\n')
    if (!line || line.length === 2) return line !== null
  }
}
