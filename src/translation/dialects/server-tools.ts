import { refuseIssue } from '../../base/body.ts'
import { denied, invalid } from '../../base/errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../../base/json.ts'
import { toNanos } from '../../base/money.ts'
import { findSchemaIssue } from '../../base/schema.ts'
import type { Config } from '../../config.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextDialect } from '../../language/dialect.ts'
import { FINISH_REASONS, type FinishReason } from '../../language/part.ts'
import type { ServerToolRequest, StopCondition, ToolReading } from '../../language/server-tools.ts'
import type { ServerToolCounts } from '../../language/usage.ts'
import type { Actor } from '../../resources/actor.ts'
import { isDisabledTool } from '../../resources/workspaces/disabled-tools.ts'
import type { DialectWorld, ReadableTool } from './world.ts'

/** What a body may say of tools that the gateway runs itself (wire reference D.2 and D.6). */
interface ServerToolFields<Tool = unknown> {
  tools?: Tool[] | null
  max_tool_calls?: unknown
  stop_server_tools_when?: unknown
}

/** Returns the name after the prefix of the gateway itself; undefined for one without that. */
export function readServiceName(
  { service_name }: Pick<Config, 'service_name'>,
  type: string,
): string | undefined {
  const at = type.indexOf(':')
  if (at === -1) return undefined
  const prefix = type.slice(0, at)
  const isService = ['openrouter', 'gateway', service_name].includes(prefix)
  return isService ? type.slice(at + 1) : undefined
}

/** The tools of a body: those of the client and its provider, and those that the gateway runs. */
interface ReadTools<Tool> {
  tools: Tool[]
  serverTools: Pick<TextCall, 'serverTools'>
}

/** The most turns of a model with tools that the gateway runs, and the default (E3). */
const MAX_STEPS = 30

/**
 * Reads the tools of a body that the gateway runs itself, and what stops them: a preset or a plugin
 * may bring the tools. Throws 403 for a tool that the workspace has disabled and 400 for one that
 * does not exist, that does not work here or whose parameters are wrong, and for a condition that
 * could never hold.
 */
export function readServerTools<Tool>(
  world: DialectWorld,
  actor: Actor,
  body: ServerToolFields<Tool>,
  dialect: TextDialect,
): ReadTools<Tool> {
  const tools: Tool[] = []
  const requests: ServerToolRequest[] = []
  for (const [i, tool] of (body.tools ?? []).entries()) {
    const request = readRequest(world, actor, tool, `tools.${i}`, dialect, body, i)
    if (request && !isRepeatedNative(requests, request))
      requests.push(requireNew(requests, request))
    else tools.push(tool)
  }
  const { max_tool_calls, stop_server_tools_when } = body
  if (requests.length === 0 && max_tool_calls == null && stop_server_tools_when == null)
    return { tools, serverTools: {} }
  const stops = readStops(body)
  const asked = {
    max_tool_calls: typeof max_tool_calls === 'number' ? max_tool_calls : null,
    hasConditions: stop_server_tools_when != null,
  }
  return { tools, serverTools: { serverTools: { requests, stops, asked } } }
}

/** Reads a tool if the gateway runs it; undefined for all others. */
function readRequest(
  world: DialectWorld,
  actor: Actor,
  entry: unknown,
  field: string,
  dialect: TextDialect,
  body: object,
  at = 0,
): ServerToolRequest | undefined {
  const type = isObject(entry) ? readString(entry.type) : null
  if (type === null || !isObject(entry)) return undefined
  const name = readServiceName(world.config, type)
  const tool = findServerTool(world, entry, type, dialect)
  if (tool === undefined) {
    if (name === undefined) return undefined
    checkEnabled(world, actor, type, [name])
    throw invalid(`${field}.type: ${describeMissing(world, type)}`, `${field}.type`)
  }
  const names = [tool.name, ...(tool.aliases ?? [])]
  const isNative = tool.readNative !== undefined && isNativeType(tool, type, dialect)
  // The workspace forbids the gateway's tool. Whether a provider's own is used is not said.
  if (isNative && isDisabledTool(world, actor.workspace_id, names)) return undefined
  checkEnabled(world, actor, type, names)
  if (tool.dialects?.includes(dialect) === false)
    throw invalid(`${field}.type: expected a tool that ${dialect} has a form for`, `${field}.type`)
  const reading: ToolReading = {
    readTool: (inner, at) => requireRequest(world, actor, inner, at, dialect, body),
    findReplayed: name => findReplayed(body, name),
    isPlain: name === undefined,
    at,
  }
  const options = isNative
    ? tool.readNative?.(world, entry, reading)
    : readOptions(tool, entry, field, reading)
  if (isNative && !options) return undefined
  const label = tool.identify?.(options)
  const identity = label === undefined ? tool.name : `${tool.name} ${label}`
  return { name: tool.name, type, options, identity, field: `${field}.type` }
}

const isNativeType = ({ nativeTypes }: ReadableTool, type: string, dialect: TextDialect): boolean =>
  nativeTypes?.[dialect]?.test(type) ?? false

// Its provider may take two of a kind. The gateway stands in for the first.
const isRepeatedNative = (
  known: ServerToolRequest[],
  { name, type, identity }: ServerToolRequest,
) => !type.includes(':') && identity === name && known.some(one => one.name === name)

// Of a tool that a call may have only once, its functions say so.
function requireNew(known: ServerToolRequest[], request: ServerToolRequest): ServerToolRequest {
  const { identity, name, field } = request
  if (identity !== name && known.some(one => one.identity === identity))
    throw invalid(`${field}: expected one ${identity}, found two`, field)
  return request
}

// A tool within another one: its client never sees its calls, so it must be one of the gateway's.
function requireRequest(
  world: DialectWorld,
  actor: Actor,
  entry: unknown,
  field: string,
  dialect: TextDialect,
  body: object,
): ServerToolRequest {
  const request = readRequest(world, actor, entry, field, dialect, body)
  if (!request) throw invalid(`${field}: expected a tool that the gateway runs`, field)
  return request
}

function findServerTool(
  world: DialectWorld,
  entry: Json,
  type: string,
  dialect: TextDialect,
): ReadableTool | undefined {
  const name = readServiceName(world.config, type)
  return world.tools.find(tool =>
    name === undefined
      ? (tool.plainTypes?.includes(type) && (tool.claims?.(entry) ?? true)) ||
        (dialect === 'chat' && tool.shorthands?.includes(type)) ||
        (isNativeType(tool, type, dialect) && (tool.claims?.(entry) ?? true))
      : tool.name === name || tool.aliases?.includes(name),
  )
}

/** Finds what the conversation has last under this name: in an item, or in a block of a message. */
function findReplayed(body: object, name: string): string | null {
  const { input, messages } = body as { input?: unknown; messages?: unknown }
  const items = [...readObjects(messages), ...readObjects(input)]
  for (const item of items.reverse())
    for (const holder of [...readObjects(item.content).reverse(), item]) {
      const found = readString(holder[name])
      if (found !== null) return found
    }
  return null
}

const describeMissing = ({ tools }: DialectWorld, type: string): string => {
  const names = tools.map(({ name }) => name).join(', ')
  return `expected one of ${names} after the prefix, found ${type.slice(0, 100)}`
}

function checkEnabled(world: DialectWorld, actor: Actor, type: string, names: string[]): void {
  if (isDisabledTool(world, actor.workspace_id, names))
    throw denied(`The workspace has disabled the tool ${type.slice(0, 100)}`)
}

/** Reads the parameters: of a shorthand those beside its type, too. Throws 400 naming the field. */
function readOptions(
  tool: ReadableTool,
  entry: Json,
  field: string,
  reading: ToolReading,
): unknown {
  const { isPlain: isShorthand } = reading
  const { type: _, parameters, ...beside } = entry
  if (parameters != null && !isObject(parameters))
    throw invalid(`${field}.parameters: expected an object`, `${field}.parameters`)
  const [stray] = Object.keys(beside)
  if (!isShorthand && stray !== undefined)
    throw invalid(
      `${field}.${stray.slice(0, 64)}: expected nothing but type and parameters`,
      `${field}.${stray.slice(0, 64)}`,
    )
  const given = isShorthand ? { ...beside, ...readObject(entry, 'parameters') } : parameters
  const path = isShorthand ? field : `${field}.parameters`
  const issue = findSchemaIssue(tool.schema, given ?? {})
  if (issue) {
    const at = issue.path ? `${path}.${issue.path}` : path
    throw refuseIssue(issue, at)
  }
  return tool.readOptions((given ?? {}) as Json, path, reading)
}

/** Reads what stops the tools of a body: its conditions, which override the bound (E3). Throws 400. */
export function readStops(body: ServerToolFields): StopCondition[] {
  const { stop_server_tools_when: conditions, max_tool_calls } = body
  if (conditions == null)
    return [{ type: 'step_count_is', step_count: readMaxSteps(max_tool_calls) }]
  const field = 'stop_server_tools_when'
  if (!Array.isArray(conditions) || conditions.length === 0 || conditions.length > MAX_CONDITIONS)
    throw invalid(`${field}: expected a list of 1 to ${MAX_CONDITIONS} conditions`, field)
  return conditions.map((condition, i) => readStop(condition, `${field}.${i}`))
}

const MAX_CONDITIONS = 64

function readMaxSteps(value: unknown): number {
  if (value == null) return MAX_STEPS
  return readCount(value, 'max_tool_calls', MAX_STEPS)
}

type StopReaders = {
  [Type in StopCondition['type']]: {
    member: string
    read(value: unknown, field: string): Extract<StopCondition, { type: Type }>
  }
}

const STOPS: StopReaders = {
  step_count_is: {
    member: 'step_count',
    read: (value, field) => ({ type: 'step_count_is', step_count: readCount(value, field) }),
  },
  has_tool_call: {
    member: 'tool_name',
    read: (value, field) => ({ type: 'has_tool_call', tool_name: readName(value, field) }),
  },
  max_tokens_used: {
    member: 'max_tokens',
    read: (value, field) => ({ type: 'max_tokens_used', max_tokens: readCount(value, field) }),
  },
  max_cost: {
    member: 'max_cost_in_dollars',
    read: (value, field) => ({ type: 'max_cost', nanos: readDollars(value, field) }),
  },
  finish_reason_is: {
    member: 'reason',
    read: (value, field) => ({ type: 'finish_reason_is', reason: readReason(value, field) }),
  },
}

function readStop(condition: unknown, field: string): StopCondition {
  const type = isObject(condition) ? condition.type : undefined
  if (!isObject(condition) || typeof type !== 'string' || !Object.hasOwn(STOPS, type))
    throw invalid(
      `${field}.type: expected one of ${Object.keys(STOPS).join(', ')}`,
      `${field}.type`,
    )
  const { member, read } = STOPS[type as StopCondition['type']]
  const stray = Object.keys(condition).find(name => name !== 'type' && name !== member)
  if (stray !== undefined)
    throw invalid(`${field}: expected nothing but type and ${member}`, `${field}.${stray}`)
  return read(condition[member], `${field}.${member}`)
}

function readCount(value: unknown, field: string, most = Number.MAX_SAFE_INTEGER): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= most)
    return value
  const upTo = most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`
  throw invalid(`${field}: expected a whole number from 1${upTo}`, field)
}

function readName(value: unknown, field: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw invalid(`${field}: expected the name of a tool`, field)
}

/** The most dollars of a condition. */
const MOST_DOLLARS = 1_000_000_000

function readDollars(value: unknown, field: string): bigint {
  if (typeof value !== 'number' || !(value > 0) || value > MOST_DOLLARS)
    throw invalid(`${field}: expected a number of dollars above 0`, field)
  const nanos = toNanos(value)
  return nanos > 0n ? nanos : 1n
}

function readReason(value: unknown, field: string): FinishReason {
  if (FINISH_REASONS.some(reason => reason === value)) return value as FinishReason
  throw invalid(`${field}: expected one of ${FINISH_REASONS.join(', ')}`, field)
}

/** Renders how often the gateway's own tools were used (wire reference A.9). */
export const renderToolCounts = ({ requested, executed, searches, endedBy }: ServerToolCounts) => ({
  tool_calls_requested: requested,
  tool_calls_executed: executed,
  web_search_requests: searches,
  ...(endedBy === undefined ? {} : { ended_by: endedBy }),
})
