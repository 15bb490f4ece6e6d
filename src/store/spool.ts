import {
  closeSync,
  copyFileSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  lstatSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { giveToOwner, makeOwnDirectory } from '../base/owner.ts'
import { hasCode, openDataFile } from './data-files.ts'

/** The folder of a data directory in which messages wait for their destinations. */
export const SPOOL = 'spool'

/** Where a block of messages is: its segment, and its offset and length in bytes. */
export interface SpoolPlace {
  segment: number
  start: number
  length: number
}

/**
 * How a process uses a spool: it writes and removes, only removes, only reads, or reads a copy that
 * is to end.
 */
type SpoolAccess = 'write' | 'remove' | 'read' | 'copy'

/** The segment that a process writes. */
interface OpenSegment {
  segment: number
  file: number
  size: number
}

/** In bytes: a segment that has as many gets no more blocks. */
const FULL = 16 * 1024 * 1024

/** How many segments are open to be read at once. */
const MOST_FILES = 8

/** Opens the spool of a data directory, as a process of this kind uses it. */
export function openSpool(
  data: string,
  access: 'command' | 'server' | 'copy',
  durability: 'normal' | 'full',
): Spool {
  if (access !== 'server') return new Spool(data, access === 'copy' ? 'copy' : 'read')
  // What must survive the loss of power is in the database.
  return new Spool(data, durability === 'normal' ? 'write' : 'remove')
}

const NAME = /^[1-9]\d{0,14}$/

/**
 * Files beside the database in which the messages of calls wait, block after block, until a segment
 * is removed as a whole: that costs a twentieth of rows. What refers to a block is in the database,
 * or in the record log. Each process that writes begins segments of its own, so that it alone knows
 * where they end, whatever a killed one has left of its last block.
 */
export class Spool {
  readonly #directory: string
  readonly #access: SpoolAccess
  readonly #largest: number
  #open: OpenSegment | null = null
  /** The segments there are, as far as this process has read the folder or changed it. */
  #segments: number[] | null = null
  /** Segments open to be read. */
  readonly #files = new Map<number, number>()
  #last = 0

  constructor(data: string, access: SpoolAccess, largest = FULL) {
    this.#directory = join(data, SPOOL)
    this.#access = access
    this.#largest = largest
  }

  /** Whether messages may be written here. */
  get isWritable(): boolean {
    return this.#access === 'write'
  }

  /** Whether this process removes what nothing refers to. */
  get isOwn(): boolean {
    return this.#access === 'write' || this.#access === 'remove'
  }

  /** Whether what waits here is to be moved into the database. */
  get isCopy(): boolean {
    return this.#access === 'copy'
  }

  /** The segment that is written now, and its size in bytes; null before its first block. */
  get current(): { segment: number; size: number } | null {
    return this.#open
  }

  /** The newest segment that this process knows of. */
  get last(): number {
    return this.#last
  }

  /** Has every later segment be newer than this one, which rows refer to. */
  beginAfter(segment: number): void {
    this.#last = Math.max(this.#last, segment)
  }

  /**
   * Returns where the next block begins. What a block is sealed for is its place. Throws when no
   * segment can be made.
   */
  findNext(): Omit<SpoolPlace, 'length'> {
    if (this.#open && this.#isOver(this.#open)) this.#close()
    this.#open ??= this.#create()
    return { segment: this.#open.segment, start: this.#open.size }
  }

  /** Adds a block at its place. Throws when it cannot be written whole; then none of it is there. */
  append(block: Uint8Array): void {
    const open = this.#open
    if (!open) throw new Error('The spool has no segment')
    try {
      if (writeSync(open.file, block) < block.length)
        throw new Error('Only a part of the messages was written')
    } catch (error) {
      ftruncateSync(open.file, open.size)
      throw error
    }
    open.size += block.length
  }

  /** Takes back what was added from a place on: nothing refers to it. */
  takeBack({ segment, start }: Omit<SpoolPlace, 'length'>): void {
    if (this.#open?.segment !== segment) return
    ftruncateSync(this.#open.file, start)
    this.#open.size = start
  }

  /** Reads a block; null where its segment is missing or too short. */
  read({ segment, start, length }: SpoolPlace): Uint8Array | null {
    try {
      const file = this.#openSegment(segment)
      if (start + length > fstatSync(file).size) return null
      const block = Buffer.allocUnsafe(length)
      return readSync(file, block, 0, length, start) === length ? block : null
    } catch {
      // A missing file, a link, or a disk that cannot be read.
      return null
    }
  }

  /**
   * The segments there are, oldest first: those that this process has begun, and those that were
   * there before its newest.
   */
  get segments(): number[] {
    return this.#segments ?? this.list()
  }

  /** Reads which segments there are, oldest first. */
  list(): number[] {
    this.#segments = listNames(this.#directory)
      .filter(name => NAME.test(name))
      .map(Number)
      .sort((a, b) => a - b)
    return this.#segments
  }

  /** Measures a segment, in bytes; 0 where there is none. */
  measure(segment: number): number {
    const found = lstatSync(this.#pathOf(segment), { throwIfNoEntry: false })
    return found?.isFile() ? found.size : 0
  }

  /**
   * Removes segments, also the one that is written: the next block begins another. What cannot be
   * removed stays, and is found again.
   */
  remove(segments: number[]): void {
    for (const segment of segments) {
      if (this.#open?.segment === segment) this.#close()
      const file = this.#files.get(segment)
      if (file !== undefined) closeSync(file)
      this.#files.delete(segment)
      removeFile(this.#pathOf(segment))
    }
    this.#segments = this.#segments?.filter(segment => !segments.includes(segment)) ?? null
  }

  close(): void {
    this.#close()
    for (const file of this.#files.values()) closeSync(file)
    this.#files.clear()
  }

  /** A server that could not take over has perhaps removed the segment in which nothing waited. */
  #isOver({ file, size }: OpenSegment): boolean {
    return size >= this.#largest || fstatSync(file).nlink === 0
  }

  #create(): OpenSegment {
    makeOwnDirectory(this.#directory)
    const before = this.list()
    const segment = Math.max(this.#last, ...before) + 1
    const file = openDataFile(this.#pathOf(segment), 'create')
    this.#last = segment
    this.#segments = [...before, segment]
    return { segment, file, size: 0 }
  }

  #close(): void {
    if (this.#open) closeSync(this.#open.file)
    this.#open = null
  }

  #openSegment(segment: number): number {
    const known = this.#files.get(segment)
    if (known !== undefined) return known
    const file = openDataFile(this.#pathOf(segment), 'read')
    for (const [oldest, open] of this.#files) {
      if (this.#files.size < MOST_FILES) break
      closeSync(open)
      this.#files.delete(oldest)
    }
    this.#files.set(segment, file)
    return file
  }

  #pathOf(segment: number): string {
    return join(this.#directory, String(segment))
  }
}

/**
 * Gives a copy of a data directory the segments that there are, while a server writes and removes
 * them. Called before the database is copied, it keeps those that are removed meanwhile; called
 * again after that, it adds what was written meanwhile.
 */
export function copySpool(data: string, copy: string): void {
  const [from, to] = [join(data, SPOOL), join(copy, SPOOL)]
  makeOwnDirectory(to)
  for (const name of listNames(from).filter(one => NAME.test(one)))
    shareSegment(join(from, name), join(to, name))
}

/** A link to a segment has what is added to it later; where there can be none, it is copied. */
function shareSegment(from: string, to: string): void {
  try {
    const [source, target] = [lstatSync(from), lstatSync(to, { throwIfNoEntry: false })]
    if (!source.isFile() || target?.size === source.size) return
    if (!target && tryLink(from, to)) return
    copyFileSync(from, to)
    giveToOwner(to)
  } catch (error) {
    // Everything in it was delivered meanwhile.
    if (!hasCode(error, 'ENOENT')) throw error
  }
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) throw error
    return false
  }
}

function removeFile(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // A folder, or one that this user may not write.
  }
}

function listNames(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return []
    throw error
  }
}
