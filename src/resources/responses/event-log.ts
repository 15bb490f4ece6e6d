import { invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'

/** In characters: the events that are kept of one response, the last ones first. */
const MOST_OF_ONE = 8 * 1024 * 1024

/** In characters: the events that are kept of all. */
const MOST_OF_ALL = 64 * 1024 * 1024

/** In characters: what one read of a log takes, unless its first event is longer. */
const LARGEST_READ = 64 * 1024

const END = '\n\n'

/**
 * The events of the responses that are streamed in the background, by their ids. They are in memory,
 * and only in the process that makes them: those of responses that have ended go first where there
 * are too many, and then the oldest of the one that grows.
 */
export class EventLogs {
  readonly #logs = new Map<string, EventLog>()
  readonly #most: { one: number; all: number }
  #size = 0

  constructor(most = { one: MOST_OF_ONE, all: MOST_OF_ALL }) {
    this.#most = most
  }

  /** Opens the log of a response. `render` renders its status as an event of a number. */
  open(id: string, render: RenderStatus): EventLog {
    const log = new EventLog(render, change => this.#count(log, change))
    this.#logs.set(id, log)
    return log
  }

  /** Finds what is kept of a response; undefined where it was not streamed, or is forgotten. */
  get(id: string): EventLog | undefined {
    return this.#logs.get(id)
  }

  /** Forgets a response. Its readers get no more of it. */
  delete(id: string): void {
    const log = this.#logs.get(id)
    this.#logs.delete(id)
    log?.end()
    log?.drop(log.size)
  }

  #count(log: EventLog, change: number): void {
    this.#size += change
    if (change <= 0) return
    // More than the room that is missing, so that not every event has to make some.
    if (log.size > this.#most.one) log.drop(log.size - this.#most.one + this.#most.one / 8)
    for (const [id, { hasEnded }] of this.#logs) {
      if (this.#size <= this.#most.all) return
      if (hasEnded) this.delete(id)
    }
    if (this.#size > this.#most.all) log.drop(this.#size - this.#most.all)
  }
}

/** Renders how a response stands as an event of a number. */
type RenderStatus = (response: Json, number: number) => string

/** The events of one response, by their numbers. */
export class EventLog {
  #events: string[] = []
  /** The number of the first event that is kept. */
  #first = 0
  #size = 0
  #hasEnded = false
  #news = Promise.withResolvers<void>()
  readonly #onChange: (change: number) => void
  readonly renderStatus: RenderStatus

  constructor(renderStatus: RenderStatus, onChange: (change: number) => void) {
    this.renderStatus = renderStatus
    this.#onChange = onChange
  }

  /** In characters. */
  get size(): number {
    return this.#size
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** The number of the next event. */
  get next(): number {
    return this.#first + this.#events.length
  }

  /** Adds the events of a text. One that has ended takes no more. */
  append(text: string): void {
    if (this.#hasEnded || text === '') return
    for (const event of text.split(END)) if (event !== '') this.#events.push(event + END)
    this.#change(text.length)
    this.#tell()
  }

  /** Ends the log, perhaps with last events. */
  end(text = ''): void {
    this.append(text)
    this.#hasEnded = true
    this.#tell()
  }

  /** Ends the log with how its response stands. */
  endAs(response: Json): void {
    this.end(this.renderStatus(response, this.next))
  }

  /** Drops the oldest events, of at least so many characters. */
  drop(size: number): void {
    let count = 0
    let dropped = 0
    while (dropped < size && count < this.#events.length)
      dropped += this.#events[count++]?.length ?? 0
    this.#events = this.#events.slice(count)
    this.#first += count
    this.#change(-dropped)
  }

  /**
   * Reads the events after one number until the log has ended. A reader that falls behind what is
   * kept is cut off. Throws 400 where the next event is no longer kept.
   */
  read(after: number): LogReader {
    if (after + 1 < this.#first)
      throw invalid(
        `starting_after: events before ${this.#first} are no longer kept; poll the response, or ` +
          'start after a later one',
        'starting_after',
      )
    let next = after + 1
    const reader: LogReader = {
      last: after,
      next: async () => {
        while (next >= this.next && !this.#hasEnded) await this.#news.promise
        if (next < this.#first || next >= this.next) return { done: true, value: undefined }
        const text = this.#take(next)
        next = text.next
        reader.last = next - 1
        return { done: false, value: text.value }
      },
    }
    return reader
  }

  #take(from: number): { value: string; next: number } {
    let value = ''
    let next = from
    do value += this.#events[next++ - this.#first] ?? ''
    while (next < this.next && value.length < LARGEST_READ)
    return { value, next }
  }

  #change(size: number): void {
    this.#size += size
    this.#onChange(size)
  }

  #tell(): void {
    this.#news.resolve()
    this.#news = Promise.withResolvers<void>()
  }
}

/** Reads a log. One that is left needs no end. */
export interface LogReader extends AsyncIterator<string> {
  /** The number of the event that it has read last. */
  last: number
}
