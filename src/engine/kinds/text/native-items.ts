import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Params } from '../../../language/params.ts'
import { CUSTOM_INPUT, type StandIns } from '../../../language/tool.ts'
import { findItemKind, findResultKind } from '../../../translation/client-kinds.ts'
import { findStandIns, nameKind, nameTool } from '../../../translation/client-tools.ts'
import { askForSummary, isCompacting } from '../../../translation/compaction.ts'

/**
 * Items of the Responses API that other providers have no form for, in a conversation that goes on
 * at one of them. Calls that the client ran itself become calls and results of functions. What the
 * provider's own tools found is left out: the model's words after it tell it. Whatever else there
 * is cannot be left out unnoticed, and is refused by its name.
 */

/** Returns the call with what other providers understand in place of such items. Throws 400. */
export function replaceNativeItems(given: TextCall): TextCall {
  const call = isCompacting(given) ? askForSummary(given) : given
  if (call.dialect !== 'responses' || !call.messages.some(isForeign)) return call
  const last = call.messages.findLastIndex(({ role }) => role === 'assistant')
  const standIns = findStandIns(call)
  const replace = (message: Message, i: number) =>
    i < last && isApproval(message) ? [] : replaceInMessage(message, standIns)
  return {
    ...call,
    messages: call.messages.flatMap(replace),
    params: { ...call.params, ...readUpdate(call) },
  }
}

/** Reads what an item of the conversation sets for the turns after it. */
function readUpdate({ messages, params }: TextCall): Params {
  const items = messages.flatMap(({ blocks }) => blocks.filter(isItem))
  const update = items.findLast(({ value }) => value.type === 'configuration_update')
  const effort = update && readString(readObject(update.value, 'reasoning').effort)
  return effort ? { reasoning: { ...params.reasoning, effort } } : {}
}

type OtherBlock = Extract<Block, { type: 'other' }>
type ItemBlock = OtherBlock & { value: Item }
type Item = Json & { type: string }

// A call of a member of a namespace is one of a function, but under another name.
const isForeign = ({ blocks }: Message): boolean =>
  blocks.some(block => isItem(block) || isNamespaced(block))

const isNamespaced = (block: Block): boolean =>
  block.type === 'tool-call' && block.extra?.namespace !== undefined

// A part of a message has a type that begins so, and protocols refuse it themselves.
const isItem = (block: Block): block is ItemBlock =>
  block.type === 'other' &&
  block.dialect === 'responses' &&
  isObject(block.value) &&
  typeof block.value.type === 'string' &&
  !block.value.type.startsWith('input_')

// What came of one that the model has answered since stands after it.
const isApproval = ({ blocks: [first] }: Message): boolean =>
  first !== undefined && isItem(first) && first.value.type === 'mcp_approval_response'

function replaceInMessage(message: Message, standIns: StandIns): Message[] {
  const [first] = message.blocks
  if (first && isItem(first) && SETTING.has(first.value.type)) return []
  const result = first && isItem(first) ? readResult(first.value, standIns) : undefined
  if (result) return result
  if (!isForeign(message)) return [message]
  return splitResults({
    ...message,
    blocks: message.blocks.flatMap(block => replaceBlock(block, standIns)),
  })
}

/** Items that set something, and say nothing. */
const SETTING = new Set(['additional_tools', 'configuration_update'])

/** Reads the result of a tool that the client has run; undefined for anything else. */
function readResult(item: Item, standIns: StandIns): Message[] | undefined {
  // What a provider's own search has found answers no call of the client.
  if (item.type === 'tool_search_output' && readString(item.call_id) === null) return []
  const name = (tool: string, namespace?: string) => nameTool(standIns, tool, namespace)
  const blocks =
    item.type === 'custom_tool_call_output'
      ? readCustomOutput(item.output)
      : findResultKind(item.type)?.toResult(item, name)
  return blocks && [{ role: 'tool', tool_call_id: readCallId(item), blocks }]
}

// Pictures in the result of such a tool stay: models that see them may.
const readCustomOutput = (output: unknown): Block[] =>
  typeof output === 'string' ? [toText(output)] : readObjects(output).map(readPart)

const readPart = (part: Json): Block =>
  part.type === 'input_image' && typeof part.image_url === 'string'
    ? { type: 'image', url: part.image_url }
    : toText(readString(part.text) ?? '')

/** A call and its result in one item: the result of the provider's own use of a server. */
type Replaced = Block | { result: Message }

function replaceBlock(block: Block, standIns: StandIns): Replaced[] {
  if (block.type === 'tool-call') return [renameCall(block, standIns)]
  if (!isItem(block)) return [block]
  const { value, field } = block
  const call = readCall(value, standIns)
  if (call) return [call]
  if (value.type === 'mcp_call') return replaceServerCall(value)
  if (value.type === 'agent_message') return listTexts(value.content)
  if (LEFT_OUT.has(value.type)) return []
  throw invalid(
    `${field ?? 'input'}: ${value.type} is an item that this model’s provider does not take`,
    field ?? 'input',
  )
}

type ToolCall = Extract<Block, { type: 'tool-call' }>

function renameCall(call: ToolCall, standIns: StandIns): Block {
  const { namespace, ...extra } = call.extra ?? {}
  if (typeof namespace !== 'string') return call
  return { ...call, name: nameTool(standIns, call.name, namespace), extra }
}

/** Reads the call of a tool that the client runs; undefined for anything else. */
function readCall(item: Item, standIns: StandIns): Block | undefined {
  const id = readCallId(item)
  if (item.type === 'custom_tool_call') {
    const name = readString(item.name) ?? ''
    const input = JSON.stringify({ [CUSTOM_INPUT]: readString(item.input) ?? '' })
    const namespace = readString(item.namespace) ?? undefined
    return { type: 'tool-call', id, name: nameTool(standIns, name, namespace), input }
  }
  const found = findItemKind(item.type)
  // A search that the provider ran itself has no id that a result could name.
  if (!found || (item.type === 'tool_search_call' && readString(item.call_id) === null))
    return undefined
  const input = JSON.stringify(found.kind.toInput(item))
  return { type: 'tool-call', id, name: nameKind(standIns, found.name) ?? found.name, input }
}

// A provider of tools had the call and the result, and no one else is asked for it.
function replaceServerCall(item: Item): Replaced[] {
  const id = readCallId(item)
  const name = readString(item.name) ?? 'mcp'
  const output = readString(item.output) ?? readString(item.error) ?? ''
  return [
    { type: 'tool-call', id, name, input: readString(item.arguments) ?? '{}' },
    { result: { role: 'tool', tool_call_id: id, blocks: [toText(output)] } },
  ]
}

/** Divides what the model said around the results of calls within it. */
function splitResults({ blocks, ...message }: Omit<Message, 'blocks'> & { blocks: Replaced[] }) {
  const messages: Message[] = []
  let said: Block[] = []
  for (const block of blocks) {
    if (!('result' in block)) {
      said.push(block)
      continue
    }
    messages.push({ ...message, blocks: said }, block.result)
    said = []
  }
  if (said.length > 0) messages.push({ ...message, blocks: said })
  return messages
}

const toText = (text: string): Block => ({ type: 'text', text })

const listTexts = (content: unknown): Block[] =>
  readObjects(content).flatMap(({ text }) => (typeof text === 'string' ? [toText(text)] : []))

// A local shell's call and its output name each other by `id`.
const readCallId = ({ call_id, id }: Item): string => readString(call_id) ?? readString(id) ?? ''

/** What a provider's own tools did, and what it offered. The model has told what came of it. */
const LEFT_OUT = new Set([
  'web_search_call',
  'file_search_call',
  'image_generation_call',
  'code_interpreter_call',
  'tool_search_call',
  'mcp_list_tools',
  'mcp_approval_request',
])
