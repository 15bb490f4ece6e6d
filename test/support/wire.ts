/** The bytes a connection has received and nobody has read yet. Reads wait for bytes, and stop waiting when the peer is gone. */
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

  /** Says that nothing more will come. */
  end() {
    this.#isOver = true
    this.#wake()
  }

  /** Reads up to and including `marker`; null when the peer left without sending it. */
  async until(marker: string): Promise<Buffer | null> {
    for (;;) {
      const at = this.#joined().indexOf(marker)
      if (at >= 0) return this.#cut(at + marker.length)
      if (this.#isOver) return null
      await this.#more()
    }
  }

  /** Reads exactly `count` bytes, or what there is when the peer left earlier. */
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

/** The first line and the headers of an HTTP/1.1 message. Header names are lower case; a repeated one is joined with a comma. */
export type Head = { line: string; headers: Record<string, string> }

/** A message's body as far as it came. `complete` is false when the framing promised more. */
export type Body = { bytes: Buffer; complete: boolean }

/** Reads a message's head; null when the peer left before its blank line. */
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

/** Reads the body a head announces: chunked, of a length, or null when the head announces neither. */
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

// A size that is missing or not a number is a body that was cut: an endless chunk, of which whatever is left is part.
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
