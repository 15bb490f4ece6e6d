import type { Sequence } from '../base/iterate.ts'
import type { Admission, LargeAnswer } from './traffic/admission.ts'

/** In bytes: what is gathered of an answer takes memory each time that so many more have come. */
const STEP = 256 * 1024

/**
 * How many times a text that is told whole at the end is in memory then: as it was gathered, in each
 * of the last events of a response, and as bytes.
 */
const COPIES = 8

/** What counts an answer in the memory of calls. */
type Memory = Pick<Admission, 'beginAnswer' | 'growAnswer' | 'endAnswer'>

/** Whose memory it is: the key and the call. */
interface Holder {
  key: string
  call: object
}

/**
 * Counts in the memory of calls what is gathered of an answer while it streams. One that grows large
 * is read on once there is memory for it. It has that until its reader has taken the last part, or
 * has left.
 */
export class GatheredMemory<Part extends object> implements Sequence<Part[]> {
  readonly #memory: Memory
  readonly #parts: Sequence<Part[]>
  readonly #answer: LargeAnswer
  #size = 0
  #counted = 0
  /** The size of an answer that is there already; it is counted before its first part. */
  readonly #known: number | null

  constructor(
    memory: Memory,
    { key, call }: Holder,
    parts: Sequence<Part[]>,
    known: number | null = null,
  ) {
    this.#memory = memory
    this.#parts = parts
    this.#answer = memory.beginAnswer(key, call)
    this.#known = known
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<Part[]>> {
    if (this.#known === null) return this.#parts.next().then(this.#count)
    const isSmall = this.#counted > 0 || this.#known < STEP
    this.#counted = this.#known
    if (isSmall) return this.#parts.next().then(this.#endWithLast)
    const grown = this.#memory.growAnswer(this.#answer, this.#known, 1)
    return grown.then(() => this.#parts.next()).then(this.#endWithLast)
  }

  async return(): Promise<IteratorResult<Part[]>> {
    this.#memory.endAnswer(this.#answer)
    return (await this.#parts.return?.()) ?? { done: true, value: undefined }
  }

  async collect(): Promise<Part[][]> {
    const batches: Part[][] = []
    for await (const batch of this) batches.push(batch)
    return batches
  }

  readonly #count = (
    step: IteratorResult<Part[]>,
  ): IteratorResult<Part[]> | Promise<IteratorResult<Part[]>> => {
    if (step.done) return this.#endWithLast(step)
    for (const part of step.value) this.#size += measurePart(part)
    if (this.#size < this.#counted + STEP) return step
    this.#counted = this.#size
    return this.#memory.growAnswer(this.#answer, this.#size, COPIES).then(() => step)
  }

  readonly #endWithLast = (step: IteratorResult<Part[]>): IteratorResult<Part[]> => {
    if (step.done) this.#memory.endAnswer(this.#answer)
    return step
  }
}

/**
 * Counts the characters of a part: its texts, arguments, pictures and sounds. Nothing else of parts
 * is large.
 */
export function measurePart(part: object): number {
  let size = 0
  for (const value of Object.values(part))
    if (typeof value === 'string') size += value.length
    else if (typeof value === 'object' && value !== null) size += measureFields(value)
  return size
}

function measureFields(value: object): number {
  let size = 0
  for (const field of Object.values(value)) if (typeof field === 'string') size += field.length
  return size
}
