import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { refuseIssue } from '../../../base/body.ts'
import { invalid } from '../../../base/errors.ts'
import { type Json, readString } from '../../../base/json.ts'
import { findSchemaIssue } from '../../../base/schema.ts'
import {
  Content,
  Id,
  list,
  Name,
  oneOf,
  open,
  optional,
  SomeId,
  SomeName,
} from '../../../base/schema-builders.ts'
import { CallIds } from '../../../language/call-ids.ts'
import { AnyObject, MAX_TOOLS } from '../schema.ts'
import { MessageContent, ToolOutput } from './content.ts'
import { ReasoningItem } from './reasoning.ts'
import { ResponsesTool } from './schema.ts'

/** The items of a request's input, by type (wire reference D.3 and D.4). */

const MessageItem = Type.Object(
  {
    type: Type.Optional(Type.Literal('message')),
    role: oneOf('user', 'assistant', 'system', 'developer'),
    content: optional(MessageContent),
    phase: optional(oneOf('commentary', 'final_answer')),
  },
  open,
)
export type MessageItem = Static<typeof MessageItem>

const FunctionCallItem = Type.Object(
  {
    type: Type.Literal('function_call'),
    call_id: SomeId,
    name: SomeName,
    arguments: Content,
    namespace: optional(Name),
  },
  open,
)
export type FunctionCallItem = Static<typeof FunctionCallItem>

const FunctionCallOutputItem = Type.Object(
  { type: Type.Literal('function_call_output'), call_id: SomeId, output: ToolOutput },
  open,
)
export type FunctionCallOutputItem = Static<typeof FunctionCallOutputItem>

/** Builds the schema of items of this type with these fields. */
const buildItemSchema = (type: string, fields: Record<string, TSchema> = {}): TSchema =>
  Type.Object({ type: Type.Literal(type), ...fields }, open)

const Operation = Type.Union([
  Type.Object({ type: oneOf('create_file', 'update_file'), path: Content, diff: Content }, open),
  Type.Object({ type: Type.Literal('delete_file'), path: Content }, open),
])
const ShellOutput = Type.Object(
  {
    stdout: Content,
    stderr: Content,
    outcome: Type.Union([
      Type.Object({ type: Type.Literal('exit'), exit_code: Type.Integer() }, open),
      Type.Object({ type: Type.Literal('timeout') }, open),
    ]),
  },
  open,
)
const call_id = SomeId

/** The side of the conversation that an item belongs to. */
type Side = 'assistant' | 'user'

/** What is known about a type of item that goes to providers of this API as it came. */
interface ItemRow {
  schema: TSchema
  side: Side
  /** Whether it is a call that its result names by `call_id`, or such a result. */
  link?: 'call' | 'result'
}

const call = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, { call_id, ...fields }),
  side: 'assistant',
  link: 'call',
})
const result = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, { call_id, ...fields }),
  side: 'user',
  link: 'result',
})
const ofModel = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, fields),
  side: 'assistant',
})
const ofClient = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, fields),
  side: 'user',
})

const OWN_ITEMS: Record<string, ItemRow> = {
  message: { schema: MessageItem, side: 'user' },
  reasoning: { schema: ReasoningItem, side: 'assistant' },
  function_call: { schema: FunctionCallItem, side: 'assistant', link: 'call' },
  function_call_output: { schema: FunctionCallOutputItem, side: 'user', link: 'result' },
}

/** The types that only providers of this API have a form for. */
const NATIVE_ITEMS: Record<string, ItemRow> = {
  custom_tool_call: call('custom_tool_call', { name: SomeName, input: Content }),
  custom_tool_call_output: result('custom_tool_call_output', { output: ToolOutput }),
  shell_call: call('shell_call', { action: Type.Object({ commands: list(Content) }, open) }),
  shell_call_output: result('shell_call_output', { output: list(ShellOutput) }),
  apply_patch_call: call('apply_patch_call', { operation: Operation }),
  apply_patch_call_output: result('apply_patch_call_output', {
    status: oneOf('completed', 'failed'),
    output: optional(Content),
  }),
  computer_call: call('computer_call'),
  computer_call_output: result('computer_call_output', { output: AnyObject }),
  // Its result may name it by `id`, and it may have no other.
  local_shell_call: {
    ...ofModel('local_shell_call', { call_id: optional(Id), id: optional(Id), action: AnyObject }),
    link: 'call',
  },
  local_shell_call_output: {
    ...ofClient('local_shell_call_output', { id: optional(Id), output: Content }),
    link: 'result',
  },
  web_search_call: ofModel('web_search_call'),
  file_search_call: ofModel('file_search_call'),
  image_generation_call: ofModel('image_generation_call', { result: optional(Content) }),
  code_interpreter_call: ofModel('code_interpreter_call', { code: optional(Content) }),
  // One that its provider answered itself has no `call_id`.
  tool_search_call: { ...ofModel('tool_search_call', { call_id: optional(Id) }), link: 'call' },
  tool_search_output: {
    ...ofClient('tool_search_output', {
      call_id: optional(Id),
      tools: optional(list(ResponsesTool, { maxItems: MAX_TOOLS })),
    }),
    link: 'result',
  },
  mcp_list_tools: ofModel('mcp_list_tools'),
  mcp_call: ofModel('mcp_call'),
  mcp_approval_request: ofModel('mcp_approval_request'),
  mcp_approval_response: ofClient('mcp_approval_response', { approve: Type.Boolean() }),
  compaction: ofModel('compaction', { encrypted_content: Content }),
  compaction_summary: ofModel('compaction_summary', { encrypted_content: Content }),
  context_compaction: ofModel('context_compaction'),
  agent_message: ofModel('agent_message'),
  compaction_trigger: ofClient('compaction_trigger'),
  additional_tools: ofClient('additional_tools', {
    tools: list(ResponsesTool, { maxItems: MAX_TOOLS }),
  }),
  configuration_update: ofClient('configuration_update', { reasoning: AnyObject }),
}

/**
 * Items of tools that the public service runs itself. No provider has a form for them, and the
 * answer that was made of them follows.
 */
const SERVICE_ITEM = /^[a-z][a-z0-9-]{0,63}:[a-z_]{1,64}$/
const SERVICE_ROW: ItemRow = { schema: AnyObject, side: 'assistant' }

/** An item that has been checked: its place, its type and what is known about that. */
export interface CheckedItem {
  /** The place in the request: `input.3`. */
  field: string
  type: string
  value: Json
  side: Side
  /** The id that a call came with, where another call has it. */
  given?: string
  /** Whether providers have a form for it, though maybe only those of this API. */
  isForProviders: boolean
}

/**
 * Checks the items of the input, each against the schema of its type, and that calls and results
 * belong together. Throws 400 naming the item by its index.
 */
export function checkItems(items: Json[]): CheckedItem[] {
  const links = new Links()
  return items.map((value, i) => {
    const field = `input.${i}`
    const type = readType(value)
    const row = findRow(type, field)
    checkItem(row.schema, value, field)
    if (type === 'message' && value.role === 'user') links.endTurn()
    const isForProviders = row !== SERVICE_ROW
    const linked = row.link ? links.link(row.link, value, field) : value
    const given = linked === value ? {} : { given: String(value.call_id) }
    return { field, type, value: linked, side: row.side, isForProviders, ...given }
  })
}

// An item with a role and without a type is a message.
const readType = ({ type, role }: Json): string =>
  typeof type === 'string' ? type : role === undefined ? '' : 'message'

function findRow(type: string, field: string): ItemRow {
  if (type === 'item_reference')
    throw invalid(
      `${field}: expected the item itself, as nothing is stored here; clients with store: false send it`,
      field,
    )
  const rows = Object.hasOwn(OWN_ITEMS, type) ? OWN_ITEMS : NATIVE_ITEMS
  if (Object.hasOwn(rows, type) && rows[type]) return rows[type]
  if (SERVICE_ITEM.test(type)) return SERVICE_ROW
  const found = type === '' ? 'an item without a type' : `the unknown type ${type.slice(0, 64)}`
  throw invalid(`${field}.type: expected a known type of item, found ${found}`, `${field}.type`)
}

function checkItem(schema: TSchema, value: Json, field: string): void {
  const issue = findSchemaIssue(schema, value)
  if (!issue) return
  const path = issue.path ? `${field}.${issue.path}` : field
  throw refuseIssue(issue, path)
}

/** The items that may name each other by `id`. */
const LOCAL_SHELL = new Set<unknown>(['local_shell_call', 'local_shell_call_output'])

/**
 * The calls of a conversation and their results. Each result follows its call, and is the only one.
 */
class Links {
  readonly #ids = new CallIds()

  /** Returns the item with an id that no other call has. Throws 400 for a result without a call. */
  link(link: 'call' | 'result', value: Json, field: string): Json {
    const isNamedById = value.call_id == null && LOCAL_SHELL.has(value.type)
    const member = isNamedById ? 'id' : 'call_id'
    const given = readString(value[member])
    if (given === null) return value
    const id = link === 'call' ? this.#ids.takeCall(given) : this.#takeResult(given, field, member)
    return id === given ? value : { ...value, [member]: id }
  }

  /** The user says something. */
  endTurn(): void {
    this.#ids.endTurn()
  }

  #takeResult(given: string, field: string, member: string): string {
    const id = this.#ids.takeResult(given)
    if (id !== undefined) return id
    const found = this.#ids.has(given)
      ? 'one that has a result'
      : 'an id that no call before it has'
    throw invalid(
      `${field}.${member}: expected the id of a call that waits for a result, found ${found}`,
      `${field}.${member}`,
    )
  }
}
