import type { Json } from '../../kernel/json.ts'
import { JsonText } from './json-text.ts'
import { signatureOf } from './thinking.ts'

/** A piece of content that is added to an open block. */
export type Delta =
  | { type: 'text_delta'; text: string }
  | { type: 'citations_delta'; citation: Json }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

/** An event in the making of a message's content. Streams and whole answers use the same ones. */
export type Step =
  | { type: 'content_block_start'; index: number; content_block: Json }
  | { type: 'content_block_delta'; index: number; delta: Delta }
  | { type: 'content_block_stop'; index: number }

/** A block to begin. */
interface NewBlock {
  /** Consecutive pieces of the same name belong to one block. */
  name: string
  block: Json
  /** The reasoning entry that the block belongs to, without its text. */
  thought?: Json
}

/** A block that is open or waits to be opened. A waiting block keeps its deltas. */
export interface Lane extends NewBlock {
  started: boolean
  kept: Delta[]
  /** Finds the end of a tool's arguments. */
  input?: JsonText
  /** The arguments, if they are not a JSON object. */
  odd?: string
}

/**
 * The blocks of a message, in order. Anthropic's clients expect one open block at a time, numbered
 * from zero. Content of other blocks waits while a tool's arguments are incomplete (translation
 * trap 61).
 */
export class Lanes {
  #open: Lane | null = null
  #waiting: Lane[] = []
  #index = -1
  #events: Step[] = []

  /** Returns the events since the previous call. */
  taken(): Step[] {
    const steps = this.#events
    if (steps.length > 0) this.#events = []
    return steps
  }

  /** Finds the block of the newest piece, if it has this name. */
  last(name: string): Lane | undefined {
    const last = this.#waiting.at(-1) ?? this.#open
    return last?.name === name ? last : undefined
  }

  /** Begins a block with its first deltas. */
  begin(given: NewBlock, kept: Delta[] = []): Lane {
    return this.#add({ ...given, started: false, kept })
  }

  /** Begins the block of a tool call, whose input follows. */
  beginTool(block: Json): Lane {
    return this.#add({ name: '', block, started: false, kept: [], input: new JsonText() })
  }

  /** Adds a delta to a block. */
  gain(pending: Lane, delta: Delta): void {
    if (pending === this.#open) this.#emitDelta(pending, delta)
    else pending.kept.push(delta)
  }

  /** Adds a piece of a tool's input. Once the input is complete, the next block opens. */
  input(pending: Lane, piece: string): void {
    if (!pending.input) return
    const partial_json = pending.input.read(piece)
    if (pending.input.isObject === false) pending.odd = (pending.odd ?? '') + partial_json
    else if (partial_json) this.gain(pending, { type: 'input_json_delta', partial_json })
    if (pending === this.#open && pending.input.complete) this.#close(pending)
    this.#advance()
  }

  /** Closes the open block, and opens and closes those that wait, at the end of the answer. */
  end(): void {
    while (this.#open) {
      this.#close(this.#open)
      this.#advance()
    }
  }

  #add(pending: Lane): Lane {
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

  #activate(pending: Lane): void {
    this.#open = pending
    // A reasoning block starts with its first delta: without text and signature it is left out.
    if (!pending.thought) this.#emitStart(pending)
    for (const delta of pending.kept) this.#emitDelta(pending, delta)
  }

  #close(pending: Lane): void {
    if (pending.thought) this.#emitSignature(pending, signatureOf(pending.thought))
    if (pending.odd !== undefined)
      this.#emitDelta(pending, {
        type: 'input_json_delta',
        partial_json: JSON.stringify(oddInput(pending.odd)),
      })
    if (pending.started) this.#events.push({ type: 'content_block_stop', index: this.#index })
    this.#open = null
  }

  #emitSignature(pending: Lane, signature: string): void {
    if (signature) this.#emitDelta(pending, { type: 'signature_delta', signature })
  }

  #emitDelta(pending: Lane, delta: Delta): void {
    this.#emitStart(pending)
    this.#events.push({ type: 'content_block_delta', index: this.#index, delta })
  }

  #emitStart(pending: Lane): void {
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
const isBusy = (pending: Lane | null): boolean =>
  pending?.input !== undefined && !pending.input.complete

/**
 * Wraps arguments that are not a JSON object into one, as Anthropic's documentation does. Its
 * clients accept only objects.
 */
export const oddInput = (raw: string): Json => ({ INVALID_JSON: raw })
