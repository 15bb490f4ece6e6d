/** What is not as memory has it any more. */
export interface Change {
  /** The part of memory. */
  noun: string
  /** What it is called there; nothing where that is not known. */
  name: string
}

/** What other processes have changed since what was taken last. */
export interface News {
  /** Null where it cannot be known, and all has to be read again. */
  changes: Change[] | null
  /** Is called once memory has them: what comes next begins after them. */
  take(): void
}

/** A change as the database notes it, of whichever program: its triggers do. */
export interface Entry extends Change {
  seq: number
}

/** What a process reads of the changes in a database. */
export interface ChangeStore {
  /** Lists what others have changed. Nothing is missed: what this process has noted is left out. */
  read(): Promise<News>
}

/** So many changes are read one by one; of more all is read again. */
const MOST = 4_000

/** Finds the newest entry. */
export const FIND_LAST = 'select seq, noun, name from changes order by seq desc limit 1'

// With the one that was read last: where it is gone, others may be, too.
const LIST = `select seq, noun, name from changes where seq >= ? order by seq limit ${MOST + 2}`

const NONE: Entry = { seq: 0, noun: '', name: '' }

/** Follows the changes in a database, whose order is that in which they came to be. */
export class ChangeFeed implements ChangeStore {
  readonly #list: (text: string, values: number[]) => Promise<Entry[]>
  #last: Entry = NONE
  /** What this process has changed itself, after others that it has not read yet. */
  #own: { after: number; last: Entry }[] = []

  private constructor(list: (text: string, values: number[]) => Promise<Entry[]>) {
    this.#list = list
  }

  /** Opens the feed at its end. */
  static async open(list: (text: string, values: number[]) => Promise<Entry[]>) {
    const feed = new ChangeFeed(list)
    feed.#last = await feed.#findLast()
    return feed
  }

  /**
   * Notes a transaction of this process: which entry was the newest when it had the database to
   * itself, and which one was when it ended.
   */
  noteOwn(after: Entry = NONE, last: Entry = NONE): void {
    if (after.seq === last.seq) return
    this.#own.push({ after: after.seq, last })
    this.#skipOwn()
  }

  async read(): Promise<News> {
    const after = this.#last
    const found = await this.#list(LIST, [after.seq])
    const [first = NONE] = found
    if (found.length > MOST + 1 || (after.seq > 0 && !isSame(first, after))) {
      const last = await this.#findLast()
      return { changes: null, take: () => this.#moveTo(last) }
    }
    const changes = found.filter(({ seq }) => seq > after.seq && !this.#isOwn(seq))
    const last = found.at(-1) ?? after
    return { changes, take: () => last.seq > this.#last.seq && this.#moveTo(last) }
  }

  async #findLast(): Promise<Entry> {
    return (await this.#list(FIND_LAST, []))[0] ?? NONE
  }

  #isOwn(seq: number): boolean {
    return this.#own.some(({ after, last }) => seq > after && seq <= last.seq)
  }

  #moveTo(last: Entry): void {
    this.#last = last
    this.#skipOwn()
  }

  #skipOwn(): void {
    this.#own = this.#own.filter(({ after, last }) => {
      if (after > this.#last.seq) return true
      if (last.seq > this.#last.seq) this.#last = last
      return false
    })
  }
}

const isSame = (a: Entry, b: Entry): boolean =>
  a.seq === b.seq && a.noun === b.noun && a.name === b.name
