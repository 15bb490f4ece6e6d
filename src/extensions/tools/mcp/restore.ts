import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'
import type { Run } from '../../../engine/run.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { ServerToolRequest } from '../../../language/server-tools.ts'
import type { ApprovedUse, RestoreContext, Restored } from '../../server-tool.ts'
import type { ExtensionWorld } from '../../world.ts'
import { cleanText, cutText, markAsData } from '../untrusted-text.ts'
import { type ApprovalDecision, checkApproval, type PlacedItem, readApprovals } from './approval.ts'
import type { McpOptions } from './options.ts'
import { resolveServer } from './server.ts'
import { nameFunction } from './tool-list.ts'

/**
 * Translates the items of MCP servers in a conversation into what every provider takes: a use is a
 * call of its function and its result, and so is one that the client refused. A list of tools is
 * left out, as is a request that has no answer. Approvals that nothing of the model's follows are
 * new: they are checked, and their uses returned.
 */
export function restoreItems(
  world: ExtensionWorld,
  run: Run,
  { call, requests }: RestoreContext,
): Restored {
  if (call.dialect !== 'responses' || !call.messages.some(hasItem)) return { call, approved: [] }
  const decisions = readApprovals(call.messages.flatMap(listItems))
  const fresh = listFresh(call.messages, decisions)
  const approved = fresh.flatMap(decision =>
    decision.isApproved ? [toApproved(world, run, requests, decision)] : [],
  )
  const freshIds = new Set(fresh.map(({ id }) => id))
  const restore = (message: Message) => restoreMessage(message, decisions, freshIds)
  return { call: { ...call, messages: call.messages.flatMap(restore) }, approved }
}

const TYPES = new Set([
  'mcp_list_tools',
  'mcp_call',
  'mcp_approval_request',
  'mcp_approval_response',
])

type ItemBlock = Extract<Block, { type: 'other' }> & { value: Json }

const isItem = (block: Block): block is ItemBlock =>
  block.type === 'other' &&
  block.dialect === 'responses' &&
  isObject(block.value) &&
  TYPES.has(String(block.value.type))

const hasItem = ({ blocks }: Message): boolean => blocks.some(isItem)

const listItems = ({ blocks }: Message): PlacedItem[] =>
  blocks.filter(isItem).map(({ value, field = 'input' }) => ({ value, field }))

/** Lists the labels of the servers whose tools the conversation lists already. */
export const listAnnounced = (messages: Message[]): Set<unknown> =>
  new Set(
    messages
      .flatMap(listItems)
      .flatMap(({ value }) => (value.type === 'mcp_list_tools' ? [value.server_label] : [])),
  )

/** Lists the decisions after all that the model said. */
function listFresh(
  messages: Message[],
  decisions: Map<string, ApprovalDecision>,
): ApprovalDecision[] {
  const last = messages.findLastIndex(({ role }) => role === 'assistant')
  const ids = messages
    .slice(last + 1)
    .flatMap(listItems)
    .map(({ value }) => String(value.approval_request_id))
  return [...new Set(ids)].flatMap(id => decisions.get(id) ?? [])
}

function toApproved(
  world: ExtensionWorld,
  { actor }: Run,
  requests: ServerToolRequest[],
  decision: ApprovalDecision,
): ApprovedUse {
  const { id, server_label, name, input, field } = decision
  const request = requests.find(
    ({ options }) => (options as McpOptions).server_label === server_label,
  )
  const server = request && resolveServer(world.config, request.options as McpOptions)
  if (!request || !server || 'obstacle' in server)
    throw invalid(
      `${field}: expected an mcp tool labelled ${cutText(cleanText(server_label), 64)} in tools`,
      field,
    )
  checkApproval(world, decision, { workspace_id: actor.workspace_id, server, name, input })
  const functionName = nameFunction(server_label, name)
  return { request, id, name: functionName, input: JSON.stringify(input), field }
}

function restoreMessage(
  { blocks, ...message }: Message,
  decisions: Map<string, ApprovalDecision>,
  fresh: Set<string>,
): Message[] {
  if (!blocks.some(isItem)) return [{ ...message, blocks }]
  const messages: Message[] = []
  let said: Block[] = []
  let results: Message[] = []
  const flush = () => {
    if (said.length > 0) messages.push({ ...message, blocks: said })
    messages.push(...results)
    said = []
    results = []
  }
  for (const block of blocks) {
    const use = isItem(block) ? toUse(block.value, decisions, fresh) : null
    // What a model says after a result is another turn.
    if (!use && !isItem(block) && block.type !== 'tool-call' && results.length > 0) flush()
    if (use) {
      said.push({ type: 'tool-call', id: use.id, name: use.name, input: use.input })
      results.push(toResult(use))
    } else if (!isItem(block)) said.push(block)
  }
  flush()
  return messages
}

/** A use as the conversation tells it. */
interface Use {
  id: string
  name: string
  input: string
  /** Null until it has run. */
  output: string | null
  isError: boolean
}

function toUse(
  item: Json,
  decisions: Map<string, ApprovalDecision>,
  fresh: Set<string>,
): Use | null {
  if (item.type === 'mcp_call') return toFinishedUse(item)
  const decision = item.type === 'mcp_approval_request' && decisions.get(String(item.id))
  if (!decision) return null
  const { id, server_label, name, input, isApproved, reason } = decision
  // One that ran before has an item of its own.
  if (isApproved && !fresh.has(id)) return null
  return {
    ...{ id, name: nameFunction(server_label, name), input: JSON.stringify(input) },
    ...(isApproved
      ? { output: null, isError: false }
      : { output: describeRefusal(reason), isError: true }),
  }
}

function toFinishedUse(item: Json): Use {
  const [label, name] = [readString(item.server_label) ?? 'mcp', readString(item.name) ?? 'tool']
  const error = readString(item.error)
  const words = error ?? readString(item.output)
  const source = `the tool ${name} of the MCP server ${label}`
  return {
    id: readString(item.id) ?? '',
    name: nameFunction(label, name),
    input: readString(item.arguments) || '{}',
    output: words === null ? '' : markAsData(source, words),
    isError: error !== null,
  }
}

const describeRefusal = (reason: string | null): string =>
  `The user did not approve this call${reason === null ? '.' : `: ${reason}`}`

const toResult = ({ id, output, isError }: Use): Message => ({
  role: 'tool',
  tool_call_id: id,
  blocks: output === null ? [] : [{ type: 'text', text: output }],
  ...(isError ? { is_error: true } : {}),
})
