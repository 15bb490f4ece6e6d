import type { Json } from '../../../base/json.ts'
import { renderSignature } from './thinking.ts'

/**
 * Scans the text of one JSON value as it streams, and finds where the object in it ends. It reads
 * each character once.
 */
export class JsonTextScanner {
  /** Whether the value is an object; undefined until it has begun. */
  isObject: boolean | undefined
  /** Whether the object is complete. */
  complete = false
  #depth = 0
  #inText = false
  #escaped = false

  /** Reads the next piece, and returns it without whatever follows the end of the object. */
  read(piece: string): string {
    if (this.complete) return ''
    for (let i = 0; i < piece.length; i++) {
      this.#readCharacter(piece.charCodeAt(i))
      if (this.complete) return piece.slice(0, i + 1)
    }
    return piece
  }

  #readCharacter(character: number): void {
    if (this.#inText) this.#readCharacterInText(character)
    else if (character === QUOTE) this.#inText = true
    else if (character === OPEN_BRACE || character === OPEN_BRACKET) this.#depth += 1
    else if (character === CLOSE_BRACE || character === CLOSE_BRACKET) this.#close()
    if (character > SPACE) this.isObject ??= character === OPEN_BRACE
  }

  #readCharacterInText(character: number): void {
    if (this.#escaped) this.#escaped = false
    else if (character === BACKSLASH) this.#escaped = true
    else if (character === QUOTE) this.#inText = false
  }

  #close(): void {
    this.#depth -= 1
    if (this.#depth === 0 && this.isObject) this.complete = true
  }
}

const SPACE = 0x20
const QUOTE = 0x22
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** The members of a compaction that a stream sends after it has begun. */
interface Compaction {
  content: unknown
  encrypted_content?: unknown
}

/** A piece of content that is added to an open block. */
export type BlockDelta =
  | { type: 'text_delta'; text: string }
  | { type: 'citations_delta'; citation: Json }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }
  /** The whole summary of a conversation, or null if there is none. */
  | ({ type: 'compaction_delta' } & Compaction)

/** An event in the making of a message's content. Streams and whole answers use the same ones. */
export type BlockEvent =
  | { type: 'content_block_start'; index: number; content_block: Json }
  | { type: 'content_block_delta'; index: number; delta: BlockDelta }
  | { type: 'content_block_stop'; index: number }

/** A block to begin. */
interface NewBlock {
  /** Consecutive pieces of the same name belong to one block. */
  name: string
  block: Json
  /** The reasoning entry that the block belongs to, without its text. */
  reasoningEntry?: Json
}

/** A block that is open or waits to be opened. A waiting block keeps its deltas. */
export interface PendingBlock extends NewBlock {
  started: boolean
  pendingDeltas: BlockDelta[]
  /** Finds the end of a tool's arguments. */
  inputScanner?: JsonTextScanner
  /** The arguments, if they are not a JSON object. */
  invalidInput?: string
}

/**
 * The blocks of a message, in order. Anthropic's clients expect one open block at a time, numbered
 * from zero. Content of other blocks waits while a tool's arguments are incomplete (translation
 * trap 61).
 */
export class BlockQueue {
  #open: PendingBlock | null = null
  #waiting: PendingBlock[] = []
  #index = -1
  #events: BlockEvent[] = []

  /** Returns the events since the previous call. */
  takeEvents(): BlockEvent[] {
    const events = this.#events
    if (events.length > 0) this.#events = []
    return events
  }

  /** Finds the block of the newest piece, if it has this name. */
  findLast(name: string): PendingBlock | undefined {
    const last = this.#waiting.at(-1) ?? this.#open
    return last?.name === name ? last : undefined
  }

  /** Begins a block with its first deltas. */
  beginBlock(start: NewBlock, pendingDeltas: BlockDelta[] = []): PendingBlock {
    return this.#add({ ...start, started: false, pendingDeltas })
  }

  /** Begins the block of a tool call, whose input follows. */
  beginTool(block: Json): PendingBlock {
    return this.#add({
      name: '',
      block,
      started: false,
      pendingDeltas: [],
      inputScanner: new JsonTextScanner(),
    })
  }

  /** Adds a delta to a block. */
  addDelta(pending: PendingBlock, delta: BlockDelta): void {
    if (pending === this.#open) this.#emitDelta(pending, delta)
    else pending.pendingDeltas.push(delta)
  }

  /** Adds a piece of a tool's input. Once the input is complete, the next block opens. */
  addInput(pending: PendingBlock, piece: string): void {
    if (!pending.inputScanner) return
    const partial_json = pending.inputScanner.read(piece)
    if (pending.inputScanner.isObject === false)
      pending.invalidInput = (pending.invalidInput ?? '') + partial_json
    else if (partial_json) this.addDelta(pending, { type: 'input_json_delta', partial_json })
    if (pending === this.#open && pending.inputScanner.complete) this.#close(pending)
    this.#advance()
  }

  /** Closes the open block, and opens and closes those that wait, at the end of the answer. */
  end(): void {
    while (this.#open) {
      this.#close(this.#open)
      this.#advance()
    }
  }

  #add(pending: PendingBlock): PendingBlock {
    this.#waiting.push(pending)
    this.#advance()
    return pending
  }

  /** Opens the waiting blocks in turn, up to a tool whose arguments are incomplete. */
  #advance(): void {
    let opened = 0
    for (const pending of this.#waiting) {
      if (isBusy(this.#open)) break
      if (this.#open) this.#close(this.#open)
      this.#activate(pending)
      opened += 1
    }
    if (opened > 0) this.#waiting = this.#waiting.slice(opened)
  }

  #activate(pending: PendingBlock): void {
    this.#open = pending
    // A reasoning block starts with its first delta: without text and signature it is left out.
    if (!pending.reasoningEntry) this.#emitStart(pending)
    for (const delta of pending.pendingDeltas) this.#emitDelta(pending, delta)
  }

  #close(pending: PendingBlock): void {
    if (pending.reasoningEntry)
      this.#emitSignature(pending, renderSignature(pending.reasoningEntry))
    if (pending.invalidInput !== undefined)
      this.#emitDelta(pending, {
        type: 'input_json_delta',
        partial_json: JSON.stringify(wrapInvalidInput(pending.invalidInput)),
      })
    if (pending.started) this.#events.push({ type: 'content_block_stop', index: this.#index })
    this.#open = null
  }

  #emitSignature(pending: PendingBlock, signature: string): void {
    if (signature) this.#emitDelta(pending, { type: 'signature_delta', signature })
  }

  #emitDelta(pending: PendingBlock, delta: BlockDelta): void {
    this.#emitStart(pending)
    this.#events.push({ type: 'content_block_delta', index: this.#index, delta })
  }

  #emitStart(pending: PendingBlock): void {
    if (pending.started) return
    pending.started = true
    this.#index += 1
    this.#events.push({
      type: 'content_block_start',
      index: this.#index,
      content_block: pending.block,
    })
  }
}

// Only a tool whose arguments are incomplete makes other blocks wait.
const isBusy = (pending: PendingBlock | null): boolean =>
  pending?.inputScanner !== undefined && !pending.inputScanner.complete

/**
 * Wraps arguments that are not a JSON object into one, as Anthropic's documentation does. Its
 * clients accept only objects.
 */
export const wrapInvalidInput = (raw: string): Json => ({ INVALID_JSON: raw })
