import { isObject, type Json, readObject, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { ServerToolOutcome, ServerToolUse, TextPart } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { StandIns } from '../../../language/tool.ts'
import { findStandIns } from '../../client-tools.ts'
import { isCompacting, sealSummary } from '../../compaction.ts'
import { createCallItem, HeldCall, isHeld, type ToolCallItem } from './call-item.ts'
import {
  type ItemEvent,
  type ItemPlace,
  type ItemStatus,
  type OpenItem,
  renderDone,
  renderTextDelta,
} from './events.ts'
import { renderFusionProgress } from './fusion-events.ts'
import { MessageItem, toFileSource, toSource } from './message-item.ts'
import {
  completeItem,
  readPreviewPlace,
  renderBirth,
  renderEnd,
  renderLife,
  renderOutcome,
  renderPreview,
} from './other-item.ts'
import { ReasoningItem } from './reasoning-item.ts'
import { findTextField } from './seal.ts'

/**
 * The output of one answer: turns its parts into items, and into the events in the making of them.
 * Items end in the order in which they begin, except for calls whose arguments are interleaved.
 */
export class ResponseOutput {
  /** The items so far, in order. The last ones may not be whole yet. */
  readonly items: Json[] = []
  /** Whether the model refused to answer. */
  refused = false
  readonly #answerId: string
  readonly #hidesReasoning: boolean
  /** The tools of the client for which functions stand in. */
  readonly #standIns: StandIns
  /** The summary that becomes the compaction of a conversation; null if none was asked for. */
  #summary: string | null
  /** The ids of the provider's items. */
  readonly #ids = new Set<unknown>()
  /** The message or reasoning that pieces are added to. */
  #current: MessageItem | ReasoningItem | null = null
  readonly #calls = new Map<number, ToolCallItem | HeldCall>()
  /** The places of tools that the gateway runs, by the id of the call. */
  readonly #running = new Map<string, ItemPlace>()
  /** Those that have shown what a panel says, by the id of the call. */
  readonly #panels = new Set<string>()
  /** The places of items that the provider has shown previews of, by its own places. */
  readonly #previewed = new Map<string, ItemPlace>()

  constructor(answerId: string, call: TextCall) {
    this.#answerId = answerId
    this.#hidesReasoning = call.params.reasoning?.exclude ?? false
    this.#standIns = findStandIns(call)
    this.#summary = isCompacting(call) ? '' : null
  }

  /** Returns the events of a part. A response has only the first of an answer's alternatives. */
  read(part: TextPart): ItemEvent[] {
    return 'choice' in part && part.choice === 0 ? this.#readPart(part) : []
  }

  /** Ends every item that is not whole yet. */
  end(status: ItemStatus): ItemEvent[] {
    const ended = [...this.#endCurrent(status), ...this.#endCalls(status)]
    const left = [...this.#endPreviewed(), ...this.#endRunning()]
    return [...ended, ...left, ...this.#addCompaction()]
  }

  #readPart(part: Extract<TextPart, { choice: number }>): ItemEvent[] {
    switch (part.type) {
      case 'text-delta':
        return this.#addText(part)
      case 'refusal-delta':
        this.refused = true
        return this.#inMessage(part.item, message => message.addRefusal(part.text))
      case 'reasoning-delta':
        return this.#addReasoning(part.text, part.details)
      case 'tool-call-start':
        return this.#beginCall(part)
      case 'tool-call-delta':
        return this.#calls.get(part.index)?.addInput(part.input) ?? []
      case 'annotation':
        return this.#addAnnotation(part)
      case 'image':
        return this.#addWhole(toImageItem(part.url))
      // This API has no sound in its answers: the words become text.
      case 'audio-delta':
        return this.#addText({ text: part.audio.transcript ?? '' })
      case 'server-tool-start':
        return this.#beginServerTool(part)
      case 'server-tool-progress':
        return this.#showProgress(part)
      case 'server-tool-end':
        return this.#endServerTool(part)
      case 'other':
        return this.#addOther(part)
      default:
        return []
    }
  }

  #addText({
    text,
    block,
    logprobs,
    item,
  }: Pick<
    Extract<TextPart, { type: 'text-delta' }>,
    'text' | 'block' | 'logprobs' | 'item'
  >): ItemEvent[] {
    if (text === '') return []
    if (this.#summary !== null) {
      this.#summary += text
      return []
    }
    return this.#inMessage(item, message => message.addText(text, block, logprobs))
  }

  #addAnnotation(part: Extract<TextPart, { type: 'annotation' }>): ItemEvent[] {
    const source = isObject(part.source)
      ? part.source
      : (toSource(part.annotation) ?? toFileSource(part.citation))
    if (!source) return []
    return this.#inMessage(part.item, message => message.addAnnotation(source, part.block))
  }

  /** Adds to the message that pieces of this owner belong to. */
  #inMessage(
    owner: Extract<TextPart, { type: 'text-delta' }>['item'],
    add: (message: MessageItem) => ItemEvent[],
  ): ItemEvent[] {
    const current = this.#current
    if (current instanceof MessageItem && current.belongsTo(owner)) return add(current)
    const ended = this.#endOpen()
    const message = new MessageItem(this.#takePlace('msg', owner?.id), owner)
    this.#current = message
    this.items.push(message.value)
    return [...ended, message.begin(), ...add(message)]
  }

  // The text repeats what readable entries contain, so it counts only without them.
  #addReasoning(text: string, details: ReasoningDetail[]): ItemEvent[] {
    if (this.#hidesReasoning || this.#summary !== null) return []
    const isBare = text !== '' && !details.some(findTextField)
    const entries = isBare ? [...details, toBareEntry(text)] : details
    return entries.flatMap(entry => this.#addEntry(entry))
  }

  #addEntry(entry: ReasoningDetail): ItemEvent[] {
    const current = this.#current
    if (current instanceof ReasoningItem && current.takes(entry)) return current.add(entry)
    const ended = this.#endOpen()
    const item = new ReasoningItem(this.#takePlace('rs', readString(entry.id)), entry.id)
    this.#current = item
    this.items.push(item.value)
    return [...ended, item.begin(), ...item.add(entry)]
  }

  #beginCall(part: Extract<TextPart, { type: 'tool-call-start' }>): ItemEvent[] {
    const ended = [...this.#endOpen(), ...this.#endCall(part.index)]
    // A provider that has namespaces says so itself.
    const tool = part.extra?.namespace == null ? this.#standIns.tools.get(part.name) : undefined
    if (tool && isHeld(tool)) {
      this.#calls.set(part.index, new HeldCall(part, tool))
      return ended
    }
    const place = this.#takePlace(tool?.form === 'custom' ? 'ctc' : 'fc', part.item?.id)
    const call = createCallItem(place, part, tool)
    this.#calls.set(part.index, call)
    this.items.push(call.value)
    return [...ended, call.begin()]
  }

  #addOther({ dialect, value, isPreview }: Extract<TextPart, { type: 'other' }>): ItemEvent[] {
    if (!isObject(value)) return []
    if (isPreview) return this.#addPreview(value)
    const item = dialect === 'responses' ? value : toNativeItem(value)
    return item ? this.#addWhole(completeItem(item)) : []
  }

  #beginServerTool(part: Extract<TextPart, { type: 'server-tool-start' }>): ItemEvent[] {
    const ended = this.#endOpen()
    const prefix = PREFIXES[String(part.item.type)] ?? 'st'
    const place = this.#takePlace(prefix, readString(part.item.id))
    const known = { ...part.item, ...toServerItem(part, place) }
    // One that asks the client something has no status.
    const isAsking = renderOutcome(known.type, false) === undefined
    const item = isAsking ? known : { ...known, status: 'in_progress' }
    this.#running.set(part.id, place)
    this.items.push(item)
    return [...ended, ...renderBirth(place, item)]
  }

  #showProgress({
    id,
    progress,
  }: Extract<TextPart, { type: 'server-tool-progress' }>): ItemEvent[] {
    const place = this.#running.get(id)
    if (!place) return []
    if (progress.type === 'text') return [renderTextDelta(place, progress.text)]
    this.#panels.add(id)
    return [renderFusionProgress(place, progress)]
  }

  #endServerTool(part: Extract<TextPart, { type: 'server-tool-end' }>): ItemEvent[] {
    const place = this.#running.get(part.id)
    if (!place) return []
    this.#running.delete(part.id)
    const begun = this.items[place.output_index]
    const { status: _, ...named } = { ...begun, ...part.item }
    const outcome = renderOutcome(named.type, part.isError)
    const status = part.isError && part.item.status === 'failed' ? 'failed' : outcome
    const item = { ...named, ...renderError(named, part), ...(status ? { status } : {}) }
    this.items[place.output_index] = item
    return renderEnd(place, item, this.#panels.delete(part.id))
  }

  // They were cut off: the client left, or a limit was reached.
  #endRunning(): ItemEvent[] {
    const places = [...this.#running.values()]
    this.#running.clear()
    return places.map(place => this.#endIncomplete(place))
  }

  /** Adds an item that is whole, with its whole life, or with its end if it was previewed. */
  #addWhole(item: Json): ItemEvent[] {
    const id = readString(item.id)
    const previewed = this.#previewed.get(`id ${id}`)
    if (id !== null && previewed) return this.#endWhole(previewed, item)
    const ended = this.#endOpen()
    const place = this.#takePlace(PREFIXES[String(item.type)] ?? 'item', id)
    const placed = { ...item, id: place.item_id }
    this.items.push(placed)
    return [...ended, ...renderLife(place, placed)]
  }

  #endWhole(place: ItemPlace, item: Json): ItemEvent[] {
    for (const [key, previewed] of this.#previewed)
      if (previewed === place) this.#previewed.delete(key)
    this.items[place.output_index] = item
    return [renderDone(place, item)]
  }

  #addPreview(event: Json): ItemEvent[] {
    if (event.type === 'response.output_item.added') return this.#beginPreviewed(event)
    const key = readPreviewPlace(event)
    // An event about no item goes on as it came.
    if (key === null) return [renderPreview({ output_index: 0, item_id: '' }, event)]
    const place = this.#previewed.get(key)
    return place ? [renderPreview(place, event)] : []
  }

  #beginPreviewed(event: Json): ItemEvent[] {
    const item = completeItem(readObject(event, 'item'))
    const id = readString(item.id)
    if (id === null) return []
    const ended = this.#endOpen()
    const place = this.#takePlace('', id)
    const key = readPreviewPlace(event)
    if (key !== null) this.#previewed.set(key, place)
    this.#previewed.set(`id ${id}`, place)
    this.items.push(item)
    return [...ended, renderPreview(place, { ...event, item })]
  }

  // Before another item begins. Calls that are not whole stay open: more of their arguments may
  // come, whatever comes in between.
  #endOpen(): ItemEvent[] {
    const ended = this.#endCurrent('completed')
    for (const [index, call] of this.#calls) if (call.isWhole) ended.push(...this.#endCall(index))
    return ended
  }

  // A provider that compacts conversations itself has made an item of its own.
  #addCompaction(): ItemEvent[] {
    const summary = this.#summary
    if (!summary || this.items.some(({ type }) => type === 'compaction')) return []
    this.#summary = null
    return this.#addWhole({ type: 'compaction', encrypted_content: sealSummary(summary) })
  }

  // The provider never sent these whole.
  #endPreviewed(): ItemEvent[] {
    const places = [...new Set(this.#previewed.values())]
    this.#previewed.clear()
    return places.map(place => this.#endIncomplete(place))
  }

  #endIncomplete(place: ItemPlace): ItemEvent {
    const item = { ...this.items[place.output_index], status: 'incomplete' }
    this.items[place.output_index] = item
    return renderDone(place, item)
  }

  #endCurrent(status: ItemStatus): ItemEvent[] {
    const current: OpenItem | null = this.#current
    this.#current = null
    return current?.end(status) ?? []
  }

  #endCalls(status: ItemStatus): ItemEvent[] {
    const events: ItemEvent[] = []
    for (const [index, call] of this.#calls)
      events.push(...this.#endCall(index, call.isWhole ? 'completed' : status))
    return events
  }

  #endCall(index: number, status: ItemStatus = 'completed'): ItemEvent[] {
    const call = this.#calls.get(index)
    this.#calls.delete(index)
    return call instanceof HeldCall
      ? this.#addWhole(call.toItem(status))
      : (call?.end(status) ?? [])
  }

  /**
   * Takes the next place. An item of the provider keeps its id, and all others get their own, as
   * does one whose id another has: a provider may begin anew in each turn.
   */
  #takePlace(prefix: string, id: string | null | undefined): ItemPlace {
    const output_index = this.items.length
    const isTaken = prefix !== '' && this.#ids.has(id)
    this.#ids.add(id)
    const own = `${prefix}_${this.#answerId}_${output_index}`
    return { output_index, item_id: isTaken || !id ? own : id }
  }
}

// An item has the name of the tool as its type, as the client gave it, unless the tool has another.
const toServerItem = ({ requestedAs, item }: ServerToolUse, { item_id }: ItemPlace): Json => ({
  type: item.type ?? requestedAs,
  id: item_id,
})

// What the item has no word for yet, the model was told.
const renderError = (item: Json, { isError, output }: ServerToolOutcome): Json =>
  item.type === 'mcp_call' && isError && item.error == null ? { error: output } : {}

/** The prefixes of ids by type of item, as OpenAI has them. */
const PREFIXES: Record<string, string> = {
  web_search_call: 'ws',
  image_generation_call: 'ig',
  code_interpreter_call: 'ci',
  custom_tool_call: 'ctc',
  mcp_call: 'mcp',
  shell_call: 'sh',
  local_shell_call: 'lsh',
  apply_patch_call: 'apc',
  computer_call: 'cu',
  tool_search_call: 'tsc',
  compaction: 'cmp',
  function_call: 'fc',
  mcp_list_tools: 'mcpl',
}

const toBareEntry = (text: string): ReasoningDetail => ({
  type: 'reasoning.text',
  text,
  format: 'unknown',
  index: 0,
})

// OpenAI's clients expect the bare data of a picture. One that has an address keeps that.
const toImageItem = (url: string): Json => ({
  type: 'image_generation_call',
  status: 'completed',
  result: /^data:[^,]{0,100};base64,/.test(url) ? url.slice(url.indexOf(',') + 1) : url,
})

/**
 * Converts a block of a tool that a provider ran in Anthropic's API into an item; undefined if this
 * API has no form for it. What the tool found is in the model's words and their sources.
 */
function toNativeItem(block: Json): Json | undefined {
  if (block.type !== 'server_tool_use') return undefined
  const input = readObject(block, 'input')
  const item = TOOLS[readString(block.name) ?? '']?.(input)
  return item && { ...item, status: 'completed' }
}

const TOOLS: Record<string, (input: Json) => Json> = {
  web_search: ({ query }) => ({
    type: 'web_search_call',
    action: { type: 'search', query: readString(query) ?? '' },
  }),
  web_fetch: ({ url }) => ({
    type: 'web_search_call',
    action: { type: 'open_page', url: readString(url) },
  }),
  code_execution: ({ code }) => ({
    type: 'code_interpreter_call',
    code: typeof code === 'string' ? code : isObject(code) ? JSON.stringify(code) : null,
    outputs: null,
  }),
}
