import { KEPT_FOR } from '../idempotency.ts'

/** An answer that can be given again. */
export interface KeptAnswer {
  status: number
  headers: [name: string, value: string][]
  /** Its body, as it came. */
  pieces: Uint8Array[]
}

/** A call under a client’s key, which runs or has ended. */
export interface KeptCall {
  /** Stands for the request itself. */
  fingerprint: string
  /** In milliseconds since 1970. */
  created_at: number
  /** Null while the call runs. */
  answer: KeptAnswer | null
  /** Set while the answer is on its way from the server that has made the call. */
  arriving?: Promise<void> | undefined
}

/** A call as one server tells another of it. */
export interface ToldCall extends Pick<KeptCall, 'fingerprint' | 'created_at'> {
  name: string
  isOver: boolean
}

/** What other servers remember: of the same data directory while both answer, or of the same store. */
export interface OtherMemory {
  /** Whether no call may begin where it does not answer. */
  isNeeded?: true
  /** Begins a call there too. Returns what it knows of the call; null for a new one. */
  begin(call: ToldCall): Promise<KeptCall | null>
  /** Tells how a call has ended; null: it may be made again. */
  end(name: string, answer: KeptAnswer | null): void | Promise<void>
}

/** How many calls are remembered, however small their answers. */
const MOST_CALLS = 10_000

/** Remembers calls under clients’ keys, the oldest first. */
export class KeptCalls {
  readonly #calls = new Map<string, KeptCall>()
  #other: OtherMemory | null = null

  /** From now on calls are begun and ended at the other server too; null: here alone. */
  shareWith(other: OtherMemory | null): void {
    this.#other = other
  }

  /** Returns the call of a name, unless it has ended more than a day ago. */
  find(name: string, now: number): KeptCall | undefined {
    const call = this.#calls.get(name)
    const isRunning = call && !call.answer && !call.arriving
    if (!call || isRunning || call.created_at > now - KEPT_FOR) return call
    this.#calls.delete(name)
    return undefined
  }

  /**
   * Begins a call. Returns the one that has its name already: of simultaneous callers one gets
   * undefined. Times in milliseconds since 1970.
   */
  async begin(name: string, fingerprint: string, now: number): Promise<KeptCall | undefined> {
    const known = this.find(name, now)
    if (known) return known
    this.put(name, { fingerprint, created_at: now, answer: null })
    const told = { name, fingerprint, created_at: now, isOver: false }
    const other = await this.#other?.begin(told).catch(thrown => {
      if (!this.#other?.isNeeded) return null
      this.#calls.delete(name)
      throw thrown
    })
    if (!other) return undefined
    this.#calls.delete(name)
    return other
  }

  /** Remembers a call under its name. */
  put(name: string, call: KeptCall): void {
    this.#calls.set(name, call)
  }

  /**
   * Ends the call of a name. Forgets the oldest ones then, until all take at most so many bytes;
   * null for the answer forgets this one: it may be made again.
   */
  end(name: string, answer: KeptAnswer | null, most: number): void {
    const call = this.#calls.get(name)
    void this.#other?.end(name, answer)
    if (!answer) this.#calls.delete(name)
    else if (call) {
      call.answer = answer
      call.arriving = undefined
      this.#trim(most)
    }
  }

  /** Lists the calls that are remembered, the oldest first. */
  list(): (ToldCall & { answer: KeptAnswer | null })[] {
    return Array.from(this.#calls, ([name, { fingerprint, created_at, answer }]) => ({
      ...{ name, fingerprint, created_at, answer },
      isOver: answer !== null,
    }))
  }

  #trim(most: number): void {
    let size = 0
    for (const { answer } of this.#calls.values()) size += getSize(answer)
    for (const [name, { answer }] of this.#calls) {
      if (size <= most && this.#calls.size <= MOST_CALLS) return
      if (!answer) continue
      this.#calls.delete(name)
      size -= getSize(answer)
    }
  }
}

function getSize(answer: KeptAnswer | null): number {
  let size = 0
  for (const { length } of answer?.pieces ?? []) size += length
  return size
}
