import type { KeptAnswer } from '../../resources/idempotency/calls.ts'

/** Memory for what has come of an answer. */
export interface RecordingMemory {
  /** Takes so many bytes. Returns false, and takes nothing, if they are not there. */
  take(bytes: number): boolean
  giveBack(bytes: number): void
}

/** In bytes: pieces are put into pages, as thousands of small ones take several times their size. */
const PAGE = 16 * 1024

/** In bytes: each time that so many more have come, they take memory. */
const STEP = 128 * 1024

/** In bytes: an answer is not read on while its client has so much to take. */
const MOST_AHEAD = 512 * 1024

interface Page {
  bytes: Uint8Array
  filled: number
  next: Page | null
}

const createPage = (): Page => ({ bytes: new Uint8Array(PAGE), filled: 0, next: null })

/**
 * The answer to one request as it comes: it is read to its end whether or not its client stays, so
 * that the same request can have it again. One that is too long to be kept, or for which there is no
 * memory, only passes.
 */
export class Recording {
  readonly status: number
  readonly headers: Headers
  readonly #memory: RecordingMemory
  readonly #most: number
  /** The first page; null of an answer that only passes. */
  #first: Page | null
  #last: Page
  #size = 0
  #counted = 0
  #readers = 0
  /** How many bytes its client has taken while it is recorded. */
  #taken = 0
  #moved = Promise.withResolvers<void>()
  #isOver = false

  /** `most` is how many bytes are kept. */
  constructor(
    { status, headers }: Pick<Response, 'status' | 'headers'>,
    memory: RecordingMemory,
    most: number,
  ) {
    this.status = status
    this.headers = new Headers(headers)
    this.#memory = memory
    this.#most = most
    this.#last = createPage()
    this.#first = this.#last
  }

  /** Returns the recording of an answer that has ended. */
  static of({ status, headers, pieces }: KeptAnswer, memory: RecordingMemory): Recording {
    const recording = new Recording({ status, headers: new Headers(headers) }, memory, Infinity)
    for (const bytes of pieces) recording.#addPage({ bytes, filled: bytes.length, next: null })
    recording.#isOver = true
    return recording
  }

  /** Takes the memory of all of it until its readers are gone. Returns false if that is not there. */
  claim(): boolean {
    return this.#count()
  }

  /**
   * Reads the answer to its end, and returns it; null if it only passed. Never throws: one that
   * breaks off ends there.
   */
  async record(body: ReadableStream<Uint8Array> | null): Promise<KeptAnswer | null> {
    try {
      for await (const piece of body ?? []) await this.#add(piece)
    } catch {
      // What has come is the answer.
    }
    this.#isOver = true
    this.#move()
    const pieces = this.#first && listPieces(this.#first)
    this.#release()
    return pieces && { status: this.status, headers: [...this.headers], pieces }
  }

  /** Reads the answer from its beginning on. An early return is a client who leaves. */
  read(): AsyncIterableIterator<Uint8Array> {
    let page = this.#first
    let offset = 0
    this.#readers += 1
    const leave = () => {
      if (!page) return
      page = null
      this.#readers -= 1
      this.#move()
      this.#release()
    }
    const reader: AsyncIterableIterator<Uint8Array> = {
      next: async () => {
        for (;;) {
          if (!page) return { done: true, value: undefined }
          if (offset < page.filled) break
          if (page.next) [page, offset] = [page.next, 0]
          else if (this.#isOver) leave()
          else await this.#moved.promise
        }
        const value = page.bytes.subarray(offset, page.filled)
        offset = page.filled
        this.#taken += value.length
        this.#move()
        return { done: false, value }
      },
      async return() {
        leave()
        return { done: true, value: undefined }
      },
      [Symbol.asyncIterator]: () => reader,
    }
    return reader
  }

  async #add(piece: Uint8Array): Promise<void> {
    if (piece.length >= PAGE) this.#addPage({ bytes: piece, filled: piece.length, next: null })
    else this.#fill(piece)
    if (this.#first && this.#size - this.#counted >= STEP && !this.#count()) this.#letPass()
    this.#move()
    while (this.#readers > 0 && this.#size - this.#taken > MOST_AHEAD) await this.#moved.promise
  }

  #fill(piece: Uint8Array): void {
    const room = this.#last.bytes.length - this.#last.filled
    const begin = piece.subarray(0, room)
    this.#last.bytes.set(begin, this.#last.filled)
    this.#last.filled += begin.length
    this.#size += begin.length
    if (begin.length === piece.length) return
    this.#addPage(createPage())
    this.#fill(piece.subarray(begin.length))
  }

  #addPage(page: Page): void {
    this.#last.next = page
    this.#last = page
    this.#size += page.filled
  }

  /** Takes memory for what has come. Returns false if there is none, or it is too much. */
  #count(): boolean {
    const more = this.#size - this.#counted
    if (this.#size > this.#most || (more > STEP / 2 && !this.#memory.take(more))) return false
    if (more > STEP / 2) this.#counted = this.#size
    return true
  }

  // What its client has taken is garbage from now on: nothing else leads to it.
  #letPass(): void {
    this.#first = null
    this.#memory.giveBack(this.#counted)
    this.#counted = 0
  }

  #release(): void {
    if (!this.#isOver || this.#readers > 0 || this.#counted === 0) return
    this.#memory.giveBack(this.#counted)
    this.#counted = 0
  }

  #move(): void {
    this.#moved.resolve()
    this.#moved = Promise.withResolvers()
  }
}

// The last page is often nearly empty: of thousands of small answers none keeps more than it needs.
function listPieces(first: Page): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let page: Page | null = first; page; page = page.next) {
    const { bytes, filled } = page
    if (filled > 0) pieces.push(filled < bytes.length ? bytes.slice(0, filled) : bytes)
  }
  return pieces
}
