import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { Cancellation } from '../../../base/cancellation.ts'
import { hideForms, listSecretForms } from '../../../network/clean-reason.ts'
import type { Egress, UpstreamWorld } from '../../../network/world.ts'
import type { ToolFunction } from '../../server-tool.ts'
import { cleanText, cutText } from '../untrusted-text.ts'
import { runLimited } from '../use-limit.ts'
import type { AllowedTools } from './options.ts'
import { listSecrets, type McpServer } from './server.ts'
import { type McpSession, type McpWorld, runSession } from './session.ts'

/** A tool of a server, checked. */
export interface McpTool {
  /** Its own name. */
  name: string
  description: string
  inputSchema: Record<string, unknown>
  /** What its results are said to be; absent where nothing is said. */
  outputSchema?: Record<string, unknown>
  isReadOnly: boolean
  /** A digest of all that is said of it. */
  digest: string
}

/** The tools of a server, and how many it lists that cannot be used. */
export interface ToolList {
  tools: McpTool[]
  leftOut: number
}

interface CachedList {
  list: Promise<ToolList>
  /** Until when it holds, in steady milliseconds. */
  until: number
}

/** The most lists that are remembered. One has at most half a MiB. */
const MOST_LISTS = 64

// The lists of servers, by the way out through which they were read.
const caches = new WeakMap<Egress, Map<string, CachedList>>()

/**
 * Lists the tools of a server. A list is remembered for `mcp.list_seconds`, by the server's URL and
 * credentials; calls that need the same one at once share it. Throws `ToolFailure`.
 */
export function listServerTools(world: McpWorld, server: McpServer): Promise<ToolList> {
  const cache = getCache(world)
  const key = buildKey(server)
  const known = cache.get(key)
  const now = world.clock.ticks()
  if (known && known.until > now) return known.list
  const list = readToolList(world, server)
  cache.delete(key)
  cache.set(key, { list, until: now + world.config.mcp.list_seconds * 1000 })
  const oldest = cache.keys().next().value
  if (cache.size > MOST_LISTS && oldest !== undefined) cache.delete(oldest)
  // A failure is not remembered.
  list.catch(() => {
    if (cache.get(key)?.list === list) cache.delete(key)
  })
  return list
}

/** Returns the list if it is remembered; null otherwise. Sends no request. */
export function getKnownTools(world: UpstreamWorld, server: McpServer): Promise<ToolList> | null {
  const known = getCache(world).get(buildKey(server))
  return known && known.until > world.clock.ticks() ? known.list : null
}

function getCache({ egress }: UpstreamWorld): Map<string, CachedList> {
  const cache = caches.get(egress) ?? new Map<string, CachedList>()
  caches.set(egress, cache)
  return cache
}

// A hash without known collisions: a list belongs to those who hold its credentials.
const buildKey = ({ url, program, oauth, headers, isConfigured }: McpServer): string =>
  digest([url, program, oauth, isConfigured, Object.entries(headers).sort()])

const digest = (value: unknown[]): string =>
  new Bun.CryptoHasher('sha256').update(JSON.stringify(value)).digest('base64')

// Calls share it, so it ends with none of them, but with its own time.
const readToolList = (world: McpWorld, server: McpServer): Promise<ToolList> =>
  runLimited(new Cancellation(), server.timeoutMilliseconds, limit =>
    runSession(world, server, limit, session => readSessionTools(world, server, session)),
  )

/** Lists the tools of a server in a session that is open. */
export const readSessionTools = async (
  { config }: UpstreamWorld,
  server: McpServer,
  session: McpSession,
): Promise<ToolList> => checkTools(server, await session.listTools(config.mcp.max_tools))

/** Forgets the list of a server: it is not what is remembered. */
export const forgetTools = (world: UpstreamWorld, server: McpServer): void => {
  getCache(world).delete(buildKey(server))
}

/** A name that every server may have (MCP 2025-11-25, "Tool Names"), and that no terminal acts on. */
const NAME = /^[A-Za-z0-9_./:-]{1,128}$/
const LONGEST_DESCRIPTION = 4_096
const LARGEST_SCHEMA = 32 * 1024
const LARGEST_SCHEMAS = 512 * 1024
const DEEPEST_SCHEMA = 32

function checkTools(server: McpServer, listed: Tool[]): ToolList {
  const tools = new Map<string, McpTool>()
  const forms = listSecretForms(listSecrets(server))
  let room = LARGEST_SCHEMAS
  for (const { name, description, inputSchema, outputSchema, annotations } of listed) {
    const size = measureSchema(inputSchema) + (outputSchema ? measureSchema(outputSchema) : 0)
    if (!NAME.test(name) || tools.has(name) || size > Math.min(LARGEST_SCHEMA, room)) continue
    if (hideForms(name, forms) !== name) continue
    room -= size
    tools.set(name, {
      name,
      description: hideForms(cutText(cleanText(description ?? ''), LONGEST_DESCRIPTION), forms),
      inputSchema: hideInSchema(inputSchema, forms),
      ...(outputSchema ? { outputSchema: hideInSchema(outputSchema, forms) } : {}),
      isReadOnly: annotations?.readOnlyHint === true,
      digest: digest([description, inputSchema, outputSchema, annotations]),
    })
  }
  return { tools: [...tools.values()], leftOut: listed.length - tools.size }
}

// As text: a schema is short, and a form is what it is in JSON.
const hideInSchema = (schema: Tool['inputSchema'], forms: string[]): Record<string, unknown> =>
  forms.length > 0 ? JSON.parse(hideForms(JSON.stringify(schema), forms)) : schema

/** Returns the length of a schema as JSON; infinite if it nests too deep. */
function measureSchema(schema: unknown): number {
  if (isDeeper(schema, DEEPEST_SCHEMA)) return Number.POSITIVE_INFINITY
  return JSON.stringify(schema).length
}

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return depth === 0 || Object.values(value).some(member => isDeeper(member, depth - 1))
}

/** Returns the tools that both the operator and the call allow. */
export function selectTools(
  { tools }: ToolList,
  { operatorTools }: McpServer,
  { names, isReadOnly }: AllowedTools,
): McpTool[] {
  return tools.filter(
    tool =>
      (operatorTools?.includes(tool.name) ?? true) &&
      (names?.includes(tool.name) ?? true) &&
      (tool.isReadOnly || !isReadOnly),
  )
}

/** Models accept so many characters in the name of a function. */
const LONGEST_FUNCTION = 64

/**
 * Names the function of a tool: `<label>__<tool>`, in the characters that every provider accepts. A
 * name that had to change ends in a hash, so that two tools never have the same.
 */
export function nameFunction(label: string, tool: string): string {
  const full = `${label}__${tool}`
  if (/^[A-Za-z0-9_-]+$/.test(full) && full.length <= LONGEST_FUNCTION) return full
  const hash = new Bun.CryptoHasher('sha256').update(full).digest('hex').slice(0, 8)
  return `${full.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, LONGEST_FUNCTION - 9)}_${hash}`
}

/** Returns the function that models are shown for a tool. */
export const toFunction = (
  label: string,
  { name, description, inputSchema }: McpTool,
  serverDescription: string | null,
): ToolFunction => ({
  name: nameFunction(label, name),
  description: [description, serverDescription].filter(Boolean).join('\n\n'),
  parameters: inputSchema,
})
