import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import type { Json } from '../../../base/json.ts'
import { closed, list, nullable, oneOf, optional } from '../../../base/schema-builders.ts'
import { MCP_LABEL } from '../../../config/tools.ts'
import { requireMatch } from '../parameters.ts'

const ToolNames = list(Type.String({ minLength: 1, maxLength: 256 }), { maxItems: 1_024 })
const NamedTools = Type.Object({ tool_names: Type.Optional(ToolNames) }, closed)

/** The tool as a body has it (wire reference D.6, `McpServerTool`). */
export const McpParameters = Type.Object(
  {
    type: Type.Optional(Type.String()),
    server_label: Type.String({
      pattern: MCP_LABEL,
      title: 'letters, digits, _ and -, at most 64',
    }),
    server_url: Type.Optional(Type.String({ minLength: 1, maxLength: 8_192 })),
    server_description: optional(Type.String({ maxLength: 2_000 })),
    connector_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    authorization: Type.Optional(Type.String({ format: 'visible-ascii', maxLength: 16_384 })),
    headers: optional(Type.Record(Type.String(), Type.String({ maxLength: 8_192 }))),
    allowed_tools: optional(
      Type.Union([
        ToolNames,
        Type.Object(
          { read_only: Type.Optional(Type.Boolean()), tool_names: Type.Optional(ToolNames) },
          closed,
        ),
      ]),
    ),
    require_approval: Type.Optional(
      nullable(
        Type.Union([
          ...oneOf('always', 'never').anyOf,
          Type.Object(
            { always: Type.Optional(NamedTools), never: Type.Optional(NamedTools) },
            closed,
          ),
        ]),
      ),
    ),
  },
  closed,
)

/** What a call says of one MCP server. */
export interface McpOptions {
  server_label: string
  /** Null for a server of the config. */
  server_url: string | null
  server_description: string | null
  /** The headers with which the caller's server is asked. */
  headers: Record<string, string>
  allowed: AllowedTools
  approval: ApprovalRule | null
  /** Whether it was asked for without a prefix, and is shown so. */
  isPlain: boolean
  /** A service of the provider's own instead of a server; null if none is named. */
  connector_id: string | null
  /** The tool as the body has it, without its type. */
  given: Json
  /** Where the tool stands in the body, for errors. */
  path: string
}

/** Which tools of a server may be used; null: any. */
export interface AllowedTools {
  names: string[] | null
  isReadOnly: boolean
}

/** Which tools wait for the client's approval: those in `always`, or `others` if in neither list. */
export interface ApprovalRule {
  always: string[]
  never: string[]
  others: 'always' | 'never'
}

/**
 * Reads the tool, which is at `path` in the body: its fields stand beside its `type`. Throws 400
 * naming the field.
 */
export function readMcpOptions(parameters: Json, path: string, isPlain = false): McpOptions {
  // A provider that runs the tool itself may have them.
  if (parameters.connector_id !== undefined && !isPlain) throw noConnectors(path)
  const read = requireMatch(McpParameters, parameters, path)
  if (read.connector_id !== undefined && read.server_url !== undefined)
    throw invalid(`${path}.connector_id: expected none beside server_url`, `${path}.connector_id`)
  const headers = readHeaders(read, path)
  const isRemote = read.server_url !== undefined || read.connector_id !== undefined
  if (!isRemote && Object.keys(headers).length > 0)
    throw invalid(
      `${path}.server_url: expected one beside headers or authorization: a server of this ` +
        'gateway has its own',
      `${path}.server_url`,
    )
  return {
    server_label: read.server_label,
    server_url: read.server_url ?? null,
    server_description: read.server_description ?? null,
    headers,
    allowed: readAllowed(read.allowed_tools),
    approval: readApproval(read.require_approval, `${path}.require_approval`),
    isPlain,
    connector_id: read.connector_id ?? null,
    given: parameters,
    path,
  }
}

/** The gateway runs the tool, and has no connectors. */
export const noConnectors = (path: string) =>
  invalid(
    `${path}.connector_id: expected server_url: this gateway has no connectors`,
    `${path}.connector_id`,
  )

type Parameters = Static<typeof McpParameters>

/** Headers that belong to the connection, or to the protocol. */
const OWN_HEADERS =
  /^(host|connection|keep-alive|content-.*|transfer-encoding|te|trailer|upgrade|expect|accept.*|proxy-.*|mcp-.*|last-event-id)$/
const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]{1,200}$/
const MOST_HEADERS = 64

function readHeaders({ headers, authorization }: Parameters, path: string): Record<string, string> {
  const field = `${path}.headers`
  const given = Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])
  if (given.length > MOST_HEADERS)
    throw invalid(`${field}: expected at most ${MOST_HEADERS}`, field)
  for (const [name = '', value = ''] of given) {
    if (!TOKEN.test(name)) throw invalid(`${field}: expected names of headers`, field)
    if (OWN_HEADERS.test(name)) throw invalid(`${field}: expected no ${name}`, field)
    if (!/^[\t -~]*$/.test(value))
      throw invalid(`${field}.${name}: expected visible ASCII`, `${field}.${name}`)
  }
  const read = Object.fromEntries(given) as Record<string, string>
  if (authorization === undefined) return read
  if (read.authorization !== undefined)
    throw invalid(`${path}.authorization: expected none beside its header`, `${path}.authorization`)
  return { ...read, authorization: `Bearer ${authorization}` }
}

function readAllowed(allowed: Parameters['allowed_tools']): AllowedTools {
  if (allowed == null) return { names: null, isReadOnly: false }
  if (Array.isArray(allowed)) return { names: allowed, isReadOnly: false }
  return { names: allowed.tool_names ?? null, isReadOnly: allowed.read_only ?? false }
}

function readApproval(rule: Parameters['require_approval'], field: string): ApprovalRule | null {
  if (rule == null) return null
  if (rule === 'always' || rule === 'never') return { always: [], never: [], others: rule }
  const [always, never] = [rule.always?.tool_names ?? [], rule.never?.tool_names ?? []]
  const both = always.some(name => never.includes(name))
  if (both) throw invalid(`${field}: expected no tool in both lists`, field)
  // A list of those that wait says of all others that they do not.
  return { always, never, others: rule.always && !rule.never ? 'never' : 'always' }
}
