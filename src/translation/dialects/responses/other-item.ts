import { getOwn, isObject, type Json, readObject, readString } from '../../../base/json.ts'
import { type ItemEvent, type ItemPlace, renderAdded, renderDone } from './events.ts'
import { isFusion, renderFusionBirth, renderFusionEnd } from './fusion-events.ts'

/**
 * Items that come whole: of tools that the provider runs, and of tools of the client that are no
 * functions. A provider may have sent previews of one, which are its events as they came.
 */

/** How an item of a type is made, if only the whole of it is known. */
interface Making {
  /** The members that the item does not have yet when it begins, with what they are then. */
  empty: Json
  /** The statuses of `response.{type}.{status}` that it goes through, from the first on. */
  statuses?: string[]
  /** Whether there is an event `response.{type}.failed` in place of the last. */
  fails?: true
  /** The member that arrives in pieces, its event, and where in the item it stands. */
  streamed?: { event: string; member: string; within?: string }
}

const MAKINGS: Record<string, Making> = {
  web_search_call: { empty: {}, statuses: ['in_progress', 'searching', 'completed'] },
  file_search_call: {
    empty: { results: null },
    statuses: ['in_progress', 'searching', 'completed'],
  },
  image_generation_call: {
    empty: { result: null },
    statuses: ['in_progress', 'generating', 'completed'],
  },
  code_interpreter_call: {
    empty: { code: '', outputs: null },
    statuses: ['in_progress', 'interpreting', 'completed'],
    streamed: { event: 'response.code_interpreter_call_code', member: 'code' },
  },
  custom_tool_call: {
    empty: { input: '' },
    streamed: { event: 'response.custom_tool_call_input', member: 'input' },
  },
  apply_patch_call: {
    empty: {},
    streamed: {
      event: 'response.apply_patch_call_operation_diff',
      member: 'diff',
      within: 'operation',
    },
  },
  mcp_list_tools: { empty: { tools: [] }, statuses: ['in_progress', 'completed'] },
  mcp_call: {
    empty: { arguments: '', output: null },
    statuses: ['in_progress', 'completed'],
    fails: true,
    streamed: { event: 'response.mcp_call_arguments', member: 'arguments' },
  },
}

/**
 * The members that clients expect of items of these types. Some servers of this API leave them out,
 * and clients then refuse the whole answer.
 */
const REQUIRED: Record<string, Json> = {
  code_interpreter_call: { code: null, container_id: '', outputs: null },
  file_search_call: { queries: [] },
  image_generation_call: { result: null },
}

/** Returns the item as clients of this API expect it. Members that it has are not changed. */
export const completeItem = (item: Json): Json => ({
  ...getOwn(REQUIRED, item.type),
  ...item,
})

/** Renders every event of an item of which there were no previews: its whole life. */
export const renderLife = (place: ItemPlace, item: Json): ItemEvent[] => [
  ...renderBirth(place, item),
  ...renderEnd(place, item),
]

/** Renders the events with which an item begins, with all that is known of it by then. */
export function renderBirth(place: ItemPlace, item: Json): ItemEvent[] {
  const making = getMaking(item)
  const [first] = making.statuses ?? []
  return [
    renderAdded(place, renderBegun(item, making)),
    ...(first ? [renderStatus(place, item, first)] : []),
    ...(isFusion(item) ? [renderFusionBirth(place)] : []),
    ...renderPieces(place, item, making),
  ]
}

/**
 * Renders the events with which an item that has begun is whole; `isShown` if what its panel said
 * was shown before.
 */
export function renderEnd(place: ItemPlace, item: Json, isShown = false): ItemEvent[] {
  const { statuses = [], fails } = getMaking(item)
  const later = statuses.slice(1)
  if (item.status === 'failed') later.splice(-1, 1, ...(fails ? ['failed'] : []))
  return [
    ...later.map(status => renderStatus(place, item, status)),
    ...(isFusion(item) ? renderFusionEnd(place, item, isShown) : []),
    renderDone(place, item),
  ]
}

const getMaking = ({ type }: Json): Making => getOwn(MAKINGS, type) ?? { empty: {} }

const renderStatus = (place: ItemPlace, { type }: Json, status: string): ItemEvent => ({
  type: `response.${type}.${status}`,
  ...place,
})

/**
 * Returns how a use of a tool of the gateway ended, as an item of this type says it; undefined for
 * one that does not.
 */
export function renderOutcome(type: unknown, isError: boolean): string | undefined {
  if (type === 'mcp_approval_request') return undefined
  if (isError) return type === 'mcp_call' ? 'failed' : 'incomplete'
  return 'completed'
}

// Members that an item does not have are not added: they would be other items than the provider's.
function renderBegun(item: Json, { empty, streamed }: Making): Json {
  const begun: Json = { ...item }
  for (const [name, value] of Object.entries(empty)) if (item[name] != null) begun[name] = value
  if (item.status !== undefined) begun.status = 'in_progress'
  if (!streamed?.within) return begun
  const outer = readObject(item, streamed.within)
  const isThere = typeof outer[streamed.member] === 'string'
  return isThere ? { ...begun, [streamed.within]: { ...outer, [streamed.member]: '' } } : begun
}

function renderPieces(place: ItemPlace, item: Json, { streamed }: Making): ItemEvent[] {
  if (!streamed) return []
  const { event, member, within } = streamed
  const value = readString((within ? readObject(item, within) : item)[member])
  if (!value) return []
  return [
    { type: `${event}.delta`, ...place, delta: value },
    { type: `${event}.done`, ...place, [member]: value },
  ]
}

/** Returns a provider's event at the item's place in this answer. */
export function renderPreview({ output_index, item_id }: ItemPlace, event: Json): ItemEvent {
  const { sequence_number: _, ...fields } = event
  const placed: ItemEvent = { ...fields, type: String(event.type) }
  if ('output_index' in fields) placed.output_index = output_index
  if ('item_id' in fields) placed.item_id = item_id
  return placed
}

/** Returns the place that a provider's event names; null if it is not about an item. */
export function readPreviewPlace(event: Json): string | null {
  const { output_index, item_id, item } = event
  if (typeof output_index === 'number') return `at ${output_index}`
  const id = readString(item_id) ?? (isObject(item) ? readString(item.id) : null)
  return id === null ? null : `id ${id}`
}
