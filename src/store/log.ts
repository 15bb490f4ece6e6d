import { closeSync, ftruncate, readdirSync, renameSync, rmSync, statSync, write } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../base/clock.ts'
import { unavailable } from '../base/errors.ts'
import type { Mac } from '../base/mac.ts'
import { appendEvidence, computeChecksum } from './checked-lines.ts'
import { hasCode, openDataFile, readDataFile } from './data-files.ts'

/** The name of a server's log, and of one that finishes its answers after another has taken over. */
export const LOG = 'log'
export const LOG_BEFORE = 'log.before'

/** In bytes: a segment that has as many gets no more blocks. */
const FULL = 16 * 1024 * 1024

/** What seals blocks, and what may have sealed those that are left: null if it is not known. */
export interface LogMacs {
  current: Mac
  previous(): Mac | null
}

/** Opens what seals a log, and what has sealed it before the secret was replaced. */
export function openLogMacs(secrets: { mac: Mac; previous(): { mac: Mac } | null }): LogMacs {
  let previous: { mac: Mac | null } | undefined
  return {
    current: secrets.mac,
    previous() {
      previous ??= { mac: secrets.previous()?.mac ?? null }
      return previous.mac
    },
  }
}

/** A block of a log, or the bytes between two that are none. */
export interface Block {
  /** Its lines of JSON; what looks like lines where it is not as it was written. */
  lines: string[]
  /** Whether it is as it was written, and follows the one before. */
  isWhole: boolean
  /** What proves it, and all before it. */
  chain: string
  bytes: Uint8Array
}

/** How a log is written. */
export interface LogOptions {
  /** In bytes. */
  largest?: number
  /** Writes a text at the end of a file, off the event loop, and tells its number of bytes. */
  write?: (file: number, text: string, tell: (error: unknown, bytes: number) => void) => void
  /** In milliseconds. */
  ticks?: () => number
}

/** What proves that nothing is before a block. */
const NOTHING = '0'.repeat(32)

/** In characters: where as much waits for the disk, no more calls are taken. */
const MOST_WAITING = 8 * 1024 * 1024

/** In milliseconds: where the disk takes longer for a block, no more calls are taken. */
const PATIENCE = 2_000

/** The lines of one turn of the event loop, and of those in which the block before was written. */
interface Turn {
  lines: string
  written: Promise<void>
  resolve(): void
  reject(error: unknown): void
  /** Whether every segment stays from here on; undefined: as before. */
  isNeeded: boolean | undefined
}

/** The segment that is written. */
interface OpenSegment {
  segment: number
  file: number
  /** In bytes, up to the end of its last whole block. */
  size: number
  /** Whether something may be behind that. */
  isTorn: boolean
  /** Whether its first block is still to say what counts of the segments before. */
  lacksOpening: boolean
}

/**
 * One log for all that has to survive a kill of the process, in segments beside the database. What
 * comes in one turn of the event loop is one block, whose seal covers its place and the block
 * before: a byte that was changed, a block that was taken out, and segments that were exchanged are
 * found. Blocks are written one after the other, off the event loop: a disk that stands still holds
 * up who waits for it, and nothing else. Each process that writes begins a segment of its own, under
 * a number that none had.
 */
export class Log {
  readonly #data: string
  readonly #macs: LogMacs
  readonly #largest: number
  readonly #writeText: NonNullable<LogOptions['write']>
  readonly #ticks: () => number
  #name: string
  #open: OpenSegment | null = null
  /** The newest segment that this process knows of. */
  #last = 0
  #chain = NOTHING
  /** What is not yet being written. */
  #turn: Turn | null = null
  #writing: Turn | null = null
  /** Since when the block is being written; meaningless while none is. */
  #writingSince = 0
  /** The block that took too long at a look, and the one that did so a turn of the loop later, too. */
  #suspect: Turn | null = null
  #late: Turn | null = null
  /** The block that is being written: its bytes, and what proves it. */
  #length = 0
  #nextChain = NOTHING
  /** Whether the next block begins a segment, however small this one is. */
  #isOver = false
  /** The newest segment of a process before this one: `take` says when it is not needed. */
  #left = 0
  /** Whether this process has filled segments that are still there. */
  #hasEarlier = false
  /** Whether earlier segments are needed: not everything in them is in the database. */
  #isNeeded = false
  /** Renders what each segment begins with: what still counts of the one before. */
  renderOpening: () => string = () => ''

  constructor(data: string, macs: LogMacs, name: string = LOG, options: LogOptions = {}) {
    this.#data = data
    this.#macs = macs
    this.#name = name
    this.#largest = options.largest ?? FULL
    this.#writeText = options.write ?? ((file, text, tell) => write(file, text, tell))
    this.#ticks = options.ticks ?? systemClock.ticks
  }

  get name(): string {
    return this.#name
  }

  /** How much of the disk it takes, with what processes before this one have left. */
  get bytes(): number {
    let bytes = 0
    for (const segment of listSegments(this.#data, this.#name))
      bytes += statSync(this.#pathOf(segment), { throwIfNoEntry: false })?.size ?? 0
    return bytes
  }

  /** How long the disk has been taking for a block, in milliseconds; 0 while none is written. */
  get lag(): number {
    return this.#writing ? this.#ticks() - this.#writingSince : 0
  }

  /** Whether the disk keeps up: else nothing should begin that has to be written. */
  get keepsUp(): boolean {
    if (!this.#writing) return true
    if ((this.#turn?.lines.length ?? 0) >= MOST_WAITING) return false
    return this.lag < PATIENCE || !this.#isLate()
  }

  // Where this process stood still, it hears in the next turn what was written meanwhile.
  #isLate(): boolean {
    const block = this.#writing
    if (this.#suspect !== block) {
      this.#suspect = block
      const note = () => {
        this.#late = this.#writing === block ? block : null
      }
      setImmediate(() => setImmediate(note))
    }
    return this.#late === block
  }

  /** What was added and is not written yet; null if all is. It rejects where `add` does. */
  get pending(): Promise<void> | null {
    return (this.#turn ?? this.#writing)?.written ?? null
  }

  /** Waits until all that was added is written, or cannot be. */
  async settle(): Promise<void> {
    while (this.pending) await this.pending.catch(() => undefined)
  }

  /**
   * Adds lines to the block of this turn. Resolves when that survives the process. Throws 503 when
   * it cannot be written. `isNeeded` says whether all segments stay from here on, or whether those
   * before this block go.
   */
  add(lines: string, isNeeded?: boolean): Promise<void> {
    this.#turn ??= this.#beginTurn()
    this.#turn.lines += lines
    if (isNeeded !== undefined) this.#turn.isNeeded = isNeeded
    return this.#turn.written
  }

  /** Begins anew: what processes before this one have left is dealt with. */
  async take(): Promise<void> {
    await this.#beginSegment('')
    this.#left = 0
    if (!this.#isNeeded) this.#removeEarlier()
  }

  /**
   * Seals what is as it was written with the current secret. Where nobody knows the one before, its
   * seals are not checked: what looks like a block is one.
   */
  async reseal(isKnown: boolean): Promise<void> {
    const blocks = isKnown ? this.read() : readBlocks(this.#data, this.#name, null)
    if (blocks.length === 0) return
    if (isKnown) this.keepDamage(() => true)
    const lines = blocks.filter(({ isWhole }) => isWhole).flatMap(block => block.lines)
    await this.#beginSegment(lines.map(line => `${line}\n`).join(''))
    this.#left = 0
    this.#removeEarlier()
  }

  /** Reads every block there is, oldest first. */
  read(): Block[] {
    return readBlocks(this.#data, this.#name, this.#macs)
  }

  /** Keeps a copy of what is damaged, to be looked into. */
  keepDamage(isConcerned: (block: Block) => boolean): void {
    const damaged = this.read().filter(block => !block.isWhole && isConcerned(block))
    if (damaged.length > 0)
      appendEvidence(join(this.#data, this.#name), Buffer.concat(damaged.map(({ bytes }) => bytes)))
  }

  /** Gives the log another name, under which it goes on. */
  async moveTo(name: string): Promise<void> {
    await this.settle()
    this.#last = Math.max(this.#last, ...listSegments(this.#data, name))
    removeLog(this.#data, name)
    for (const segment of listSegments(this.#data, this.#name))
      renameSync(this.#pathOf(segment), join(this.#data, `${name}.${segment}`))
    this.#name = name
  }

  #beginTurn(): Turn {
    if (!this.#writing) setImmediate(this.#writeTurn)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    return { lines: '', written: promise, resolve, reject, isNeeded: undefined }
  }

  /** Writes lines into a segment that begins with them. Throws why they cannot be written. */
  async #beginSegment(lines: string): Promise<void> {
    await this.settle()
    this.#isOver = true
    await this.add(lines).catch(({ cause }) => {
      throw cause
    })
  }

  /** Writes what has come in this turn, or while the block before was written. */
  #writeTurn = (): void => {
    this.#writing = this.#turn
    this.#turn = null
    this.#writingSince = this.#ticks()
    try {
      if (!this.#open || this.#isOver || this.#open.size >= this.#largest) this.#create()
      if (this.#open?.isTorn) ftruncate(this.#open.file, this.#open.size, this.#onCut)
      else this.#writeBlock()
    } catch (error) {
      this.#end(error)
    }
  }

  #create(): void {
    const segments = listSegments(this.#data, this.#name)
    const before = listSegments(this.#data, this.#name === LOG ? LOG_BEFORE : LOG)
    const segment = Math.max(this.#last, ...segments, ...before) + 1
    if (!this.#open) this.#left = Math.max(0, ...segments)
    if (!this.#open) this.#chain = findChain(readBlocks(this.#data, this.#name, null))
    const file = openDataFile(this.#pathOf(segment), 'create')
    if (this.#open) closeSync(this.#open.file)
    if (this.#open) this.#hasEarlier = true
    const lacksOpening = this.#open !== null || this.#isOver
    this.#open = { segment, file, size: 0, isTorn: false, lacksOpening }
    this.#isOver = false
    this.#last = segment
  }

  #onCut = (error: unknown): void => {
    if (this.#open && !error) this.#open.isTorn = false
    if (error) this.#end(error)
    else this.#writeBlock()
  }

  #writeBlock(): void {
    const open = this.#open
    const turn = this.#writing
    if (!open || !turn) return
    const body = open.lacksOpening ? this.renderOpening() + turn.lines : turn.lines
    const length = Buffer.byteLength(body)
    this.#nextChain = sealBlock(this.#macs.current, open.segment, this.#chain, body)
    const head = `#${length} ${countLines(body)} ${this.#chain} ${this.#nextChain}`
    const text = `${head} ${computeChecksum(head)}\n${body}`
    this.#length = text.length - body.length + length
    open.isTorn = true
    this.#writeText(open.file, text, this.#onWritten)
  }

  #onWritten = (error: unknown, bytes: number): void => {
    const open = this.#open
    if (!open) return
    if (error || bytes < this.#length) {
      this.#takeBack(open, error ?? new Error('Only a part of the block was written'))
      return
    }
    open.isTorn = false
    open.size += this.#length
    this.#chain = this.#nextChain
    open.lacksOpening = false
    this.#isNeeded = this.#writing?.isNeeded ?? this.#isNeeded
    if (this.#hasEarlier && !this.#isNeeded) this.#dropEarlier()
    this.#end(null)
  }

  /** Takes away at once what was written of a block, or before the next one. */
  #takeBack(open: OpenSegment, cause: unknown): void {
    ftruncate(open.file, open.size, error => {
      open.isTorn = Boolean(error)
      this.#end(cause)
    })
  }

  #end(cause: unknown): void {
    const turn = this.#writing
    this.#writing = null
    if (this.#turn) setImmediate(this.#writeTurn)
    if (cause === null) turn?.resolve()
    else turn?.reject(unavailable('The call could not be recorded', undefined, cause))
  }

  #dropEarlier(): void {
    try {
      this.#removeEarlier()
    } catch {
      // Tried again with the next block.
    }
  }

  #removeEarlier(): void {
    for (const segment of listSegments(this.#data, this.#name))
      if (segment > this.#left && segment !== this.#open?.segment)
        rmSync(this.#pathOf(segment), { force: true })
    this.#hasEarlier = false
  }

  #pathOf(segment: number): string {
    return join(this.#data, `${this.#name}.${segment}`)
  }
}

const findChain = (blocks: Block[]): string =>
  blocks.findLast(({ chain }) => chain !== '')?.chain ?? NOTHING

const sealBlock = (mac: Mac, segment: number, before: string, body: string): string =>
  mac(`${segment} ${before}\n${body}`).slice(0, 32)

/** Whether a file is a segment of the log. */
export const isSegmentName = (file: string): boolean => parseName(file, LOG) !== null

function parseName(file: string, name: string): number | null {
  const [, number] = /^\.([1-9]\d{0,14})$/.exec(file.slice(name.length)) ?? []
  return file.startsWith(name) && number !== undefined ? Number(number) : null
}

/** Lists the numbers of the segments of a log, oldest first. */
export const listSegments = (data: string, name: string = LOG): number[] =>
  listNames(data)
    .map(file => parseName(file, name))
    .filter(number => number !== null)
    .sort((a, b) => a - b)

function listNames(data: string): string[] {
  try {
    return readdirSync(data)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  }
}

/** Whether a directory has a log of this name. */
export const hasLog = (data: string, name: string): boolean => listSegments(data, name).length > 0

/** Removes a log. */
export function removeLog(data: string, name: string): void {
  for (const segment of listSegments(data, name))
    rmSync(join(data, `${name}.${segment}`), { force: true })
}

/** Reads the segments of a log, while a server may write it and remove them. */
export function readSegments(data: string, name: string = LOG): Map<number, Buffer> {
  for (;;) {
    const found = new Map<number, Buffer>()
    const segments = listSegments(data, name)
    for (const segment of segments) {
      const bytes = readDataFile(join(data, `${name}.${segment}`))
      if (bytes) found.set(segment, bytes)
    }
    if (found.size === segments.length) return found
  }
}

/**
 * Reads the blocks of a log, oldest first. The last one of a segment may have been cut by the end of
 * its process, and is left out. Without the secret, seals are not checked.
 */
export function readBlocks(data: string, name: string, macs: LogMacs | null): Block[] {
  const blocks: Block[] = []
  let before: string | null = null
  for (const [segment, bytes] of readSegments(data, name))
    for (const block of parseSegment(bytes, segment, macs)) {
      const { head } = block
      // Behind what is damaged, nothing is known of the block before.
      const follows: boolean = !head || before === null || before === head.before
      before = head?.chain ?? null
      const isWhole = block.isWhole && follows
      const lines = isWhole || block.lines.length > 0 ? block.lines : ['']
      blocks.push({ lines, isWhole, chain: before ?? '', bytes: block.bytes })
    }
  return blocks
}

interface Head {
  /** In bytes: the lines behind it. */
  length: number
  lines: number
  /** What proves the block before, and this one. */
  before: string
  chain: string
}

interface ParsedBlock extends Omit<Block, 'chain'> {
  head: Head | null
}

const MARK = 0x23
const LINE_END = 0x0a
/** In bytes: no head is longer. */
const LONGEST_HEAD = 110

function* parseSegment(
  bytes: Buffer,
  segment: number,
  macs: LogMacs | null,
): Generator<ParsedBlock> {
  for (let start = 0, end = 0; start < bytes.length; start = end) {
    const headEnd = bytes.indexOf(LINE_END, start)
    const head = headEnd === -1 ? null : parseHead(bytes.toString('latin1', start, headEnd))
    end = headEnd + 1 + (head?.length ?? 0)
    let body = head && end <= bytes.length ? bytes.toString('utf8', headEnd + 1, end) : null
    const isWhole = head !== null && body !== null && isGenuine(head, body, segment, macs)
    if (!isWhole) {
      if (!head || !isHead(bytes, end)) end = findNextHead(bytes, start)
      const rest = bytes.toString('utf8', head ? headEnd + 1 : start, end)
      if (body === null && end === bytes.length && isCut(head, rest)) return
      body = rest
    }
    yield { head, lines: splitBody(body ?? '', head), isWhole, bytes: bytes.subarray(start, end) }
  }
}

/** Whether these last bytes are of a block that was cut: one that was changed has all its lines. */
const isCut = (head: Head | null, rest: string): boolean =>
  head ? countLines(rest) < head.lines : !rest.includes('\n') && rest.length < LONGEST_HEAD

function countLines(body: string): number {
  let count = 0
  for (let at = body.indexOf('\n'); at !== -1; at = body.indexOf('\n', at + 1)) count += 1
  return count
}

/** Splits a body into its lines. Without its head, what is left of that is before them. */
function splitBody(body: string, head: Head | null): string[] {
  const lines = body.split('\n').filter(line => line !== '')
  return head || lines.length < 2 ? lines : lines.slice(1)
}

function isGenuine(
  { before, chain }: Head,
  body: string,
  segment: number,
  macs: LogMacs | null,
): boolean {
  if (!macs) return true
  if (sealBlock(macs.current, segment, before, body) === chain) return true
  const previous = macs.previous()
  return previous !== null && sealBlock(previous, segment, before, body) === chain
}

function parseHead(line: string): Head | null {
  const [, head = '', length, lines, before = '', chain = '', checksum] =
    /^(#(\d{1,10}) (\d{1,10}) ([0-9a-f]{32}) ([0-9a-f]{32})) ([0-9a-f]{8})$/.exec(line) ?? []
  return head !== '' && computeChecksum(head) === checksum
    ? { length: Number(length), lines: Number(lines), before, chain }
    : null
}

/** Finds where the next block begins, behind bytes that are none. */
function findNextHead(bytes: Buffer, start: number): number {
  for (let at = bytes.indexOf(LINE_END, start); at !== -1; at = bytes.indexOf(LINE_END, at + 1))
    if (isHead(bytes, at + 1)) return at + 1
  return bytes.length
}

function isHead(bytes: Buffer, start: number): boolean {
  const end = bytes[start] === MARK ? bytes.indexOf(LINE_END, start) : -1
  return end !== -1 && parseHead(bytes.toString('latin1', start, end)) !== null
}
