import { invalid } from '../../../errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../../../kernel/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'

/**
 * Items of the Responses API that other providers have no form for, in a conversation that goes on
 * at one of them. Calls that the client ran itself become calls and results of functions. What the
 * provider's own tools found is left out: the model's words after it tell it. Whatever else there
 * is cannot be left out unnoticed, and is refused by its name.
 */

/** Returns the call with what other providers understand in place of such items. Throws 400. */
export function replaceNativeItems(call: TextCall): TextCall {
  if (call.dialect !== 'responses' || !call.messages.some(hasItem)) return call
  const last = call.messages.findLastIndex(({ role }) => role === 'assistant')
  const replace = (message: Message, i: number) =>
    i < last && isApproval(message) ? [] : replaceInMessage(message)
  return { ...call, messages: call.messages.flatMap(replace) }
}

type OtherBlock = Extract<Block, { type: 'other' }>
type Item = Json & { type: string }

const hasItem = ({ blocks }: Message): boolean => blocks.some(isItem)

// A part of a message has a type that begins so, and protocols refuse it themselves.
const isItem = (block: Block): block is OtherBlock & { value: Item } =>
  block.type === 'other' &&
  block.dialect === 'responses' &&
  isObject(block.value) &&
  typeof block.value.type === 'string' &&
  !block.value.type.startsWith('input_')

// What came of one that the model has answered since stands after it.
const isApproval = ({ blocks: [first] }: Message): boolean =>
  first !== undefined && isItem(first) && first.value.type === 'mcp_approval_response'

function replaceInMessage(message: Message): Message[] {
  const [first] = message.blocks
  const toResult = first && isItem(first) ? RESULTS[first.value.type] : undefined
  if (first && isItem(first) && toResult) return [toToolMessage(first.value, toResult(first.value))]
  if (!hasItem(message)) return [message]
  return splitResults({ ...message, blocks: message.blocks.flatMap(replaceBlock) })
}

const toToolMessage = (item: Item, blocks: Block[]): Message => ({
  role: 'tool',
  tool_call_id: readCallId(item),
  blocks,
})

/** A call and its result in one item: the result of the provider's own use of a server. */
type Replaced = Block | { result: Message }

function replaceBlock(block: Block): Replaced[] {
  if (!isItem(block)) return [block]
  const { value, field } = block
  const input = CALLS[value.type]?.(value)
  if (input !== undefined) return [toToolCall(value, input)]
  if (value.type === 'mcp_call') return replaceServerCall(value)
  if (value.type === 'agent_message') return listTexts(value.content)
  if (LEFT_OUT.has(value.type)) return []
  throw invalid(
    `${field ?? 'input'}: ${value.type} is an item that this model’s provider does not take`,
    field ?? 'input',
  )
}

const toToolCall = (item: Item, { name, input }: ToolCall): Block => ({
  type: 'tool-call',
  id: readCallId(item),
  name,
  input: JSON.stringify(input),
})

// A provider of tools had the call and the result, and no one else is asked for it.
function replaceServerCall(item: Item): Replaced[] {
  const id = readCallId(item)
  const name = readString(item.name) ?? 'mcp'
  const output = readString(item.output) ?? readString(item.error) ?? ''
  return [
    { type: 'tool-call', id, name, input: readString(item.arguments) ?? '{}' },
    { result: { role: 'tool', tool_call_id: id, blocks: [{ type: 'text', text: output }] } },
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

interface ToolCall {
  name: string
  input: Json
}

/** The calls of tools that the client ran, as calls of functions. */
const CALLS: Record<string, (item: Item) => ToolCall> = {
  shell_call: item => ({ name: 'shell', input: readObject(item, 'action') }),
  local_shell_call: item => ({ name: 'local_shell', input: readObject(item, 'action') }),
  apply_patch_call: item => ({ name: 'apply_patch', input: readObject(item, 'operation') }),
  computer_call: item => ({ name: 'computer', input: readObject(item, 'action') }),
}

/** The results of such calls. */
const RESULTS: Record<string, (item: Item) => Block[]> = {
  shell_call_output: item => [toText(readObjects(item.output).map(renderShell).join('\n'))],
  local_shell_call_output: item => [toText(readString(item.output) ?? '')],
  apply_patch_call_output: ({ status, output }) => [
    toText([readString(status), readString(output)].filter(Boolean).join('\n')),
  ],
  computer_call_output: ({ output }) => [renderScreen(output)],
}

const toText = (text: string): Block => ({ type: 'text', text })

function renderShell({ stdout, stderr, outcome }: Json): string {
  const { type, exit_code } = isObject(outcome) ? outcome : {}
  const end = type === 'timeout' ? 'timeout' : `exit code ${exit_code}`
  return [readString(stdout), readString(stderr), end].filter(Boolean).join('\n')
}

function renderScreen(output: unknown): Block {
  const url = isObject(output) ? readString(output.image_url) : null
  return url === null ? toText(JSON.stringify(output)) : { type: 'image', url }
}

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
