import type { KeptAnswer } from '../../core/identity/idempotency/calls.ts'

/**
 * The answer to one request as it comes: it is read to its end whether or not its client stays, so
 * that the same request can have it again.
 */
export class Recording {
  readonly status: number
  readonly headers: Headers
  readonly #pieces: Uint8Array[] = []
  #waiting = Promise.withResolvers<void>()
  #isOver = false

  constructor({ status, headers }: Pick<Response, 'status' | 'headers'>) {
    this.status = status
    this.headers = new Headers(headers)
  }

  /** Returns the recording of an answer that has ended. */
  static of({ status, headers, pieces }: KeptAnswer): Recording {
    const recording = new Recording({ status, headers: new Headers(headers) })
    recording.#pieces.push(...pieces)
    recording.#isOver = true
    return recording
  }

  /** Reads the answer to its end, and returns it. Never throws: one that breaks off ends there. */
  async record(body: ReadableStream<Uint8Array> | null): Promise<KeptAnswer> {
    try {
      for await (const piece of body ?? []) {
        this.#pieces.push(piece)
        this.#wake()
      }
    } catch {
      // What has come is the answer.
    }
    this.#isOver = true
    this.#wake()
    return { status: this.status, headers: [...this.headers], pieces: this.#pieces }
  }

  /** Returns the answer from its beginning on. */
  play(headers: Record<string, string> = {}): Response {
    let next = 0
    const body = new ReadableStream<Uint8Array>({
      pull: async controller => {
        while (next === this.#pieces.length && !this.#isOver) await this.#waiting.promise
        const piece = this.#pieces[next++]
        if (piece) controller.enqueue(piece)
        else controller.close()
      },
    })
    const all = new Headers(this.headers)
    for (const [name, value] of Object.entries(headers)) all.set(name, value)
    return new Response(body, { status: this.status, headers: all })
  }

  #wake(): void {
    this.#waiting.resolve()
    this.#waiting = Promise.withResolvers()
  }
}
