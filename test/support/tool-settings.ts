import type { Gateway } from '../../src/app/gateway.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import type { Json } from '../../src/base/json.ts'
import { clientLeft } from '../../src/engine/run.ts'
import { getApproval } from '../../src/extensions/mcp-gateway.ts'
import type { ServerTool, ToolResult } from '../../src/extensions/server-tool.ts'
import { resolveServer } from '../../src/extensions/tools/mcp/server.ts'
import { mcp } from '../../src/extensions/tools/mcp.ts'
import { webFetch } from '../../src/extensions/tools/web-fetch.ts'
import { webSearch } from '../../src/extensions/tools/web-search.ts'
import { type Send, toIncomingResponse } from '../../src/network/egress.ts'
import { decodeOutgoing } from './outgoing.ts'
import { buildUse } from './tools.ts'

/** A large text: 1.5 MiB. */
const LARGE = 'x'.repeat(1.5 * 1024 * 1024)

/** A world whose every request is answered by this function, and whose every host is public. */
const answerAll = (gateway: Gateway, answer: (url: string, body: string) => Response | null) => ({
  ...gateway,
  egress: {
    ...gateway.egress,
    resolve: async () => ['93.184.215.14'],
    send: (async ({ url, body }, cancellation) => {
      const response = answer(url, decodeOutgoing(body))
      if (response) return toIncomingResponse(response)
      const never = Promise.withResolvers<never>()
      cancellation.listen(never.reject)
      return never.promise
    }) as Send,
  },
})

const hasObstacle = <Options>(tool: ServerTool<Options>, gateway: Gateway, parameters: Json) =>
  tool.findObstacle(gateway, tool.readOptions(parameters, 'p')) !== null

/** Whether the search tool cannot be used with these parameters. */
export const hasSearchObstacle = (gateway: Gateway, parameters: Json = {}) =>
  hasObstacle(webSearch, gateway, parameters)

/** Searches as the second use of a call, where no engine ever answers. */
export function search(gateway: Gateway, signal?: AbortSignal): Promise<ToolResult> {
  const use = buildUse(webSearch, {}, { query: 'x' }, { uses: 1, ...follow(signal) })
  return webSearch.run(
    answerAll(gateway, () => null),
    use,
  )
}

/** Whether the tool that reads pages cannot be used. */
export const hasFetchObstacle = (gateway: Gateway, engine = 'auto') =>
  hasObstacle(webFetch, gateway, { engine })

/** Returns what reading a page costs. */
export const priceFetch = (gateway: Gateway) =>
  webFetch.priceUse?.(gateway, webFetch.readOptions({}, 'p'))

/** Reads a large page of a site that lets no robot read it; or one that never comes. */
export function readPage(
  gateway: Gateway,
  { uses = 0, isSilent = false }: { uses?: number; isSilent?: boolean } = {},
  signal?: AbortSignal,
): Promise<ToolResult> {
  const use = buildUse(webFetch, {}, { url: 'https://example.com/a' }, { uses, ...follow(signal) })
  const world = answerAll(gateway, url => {
    if (url.endsWith('/robots.txt')) return new Response('User-agent: *\nDisallow: /\n')
    return isSilent ? null : new Response(LARGE, { headers: { 'content-type': 'text/plain' } })
  })
  return webFetch.run(world, use)
}

const MCP = { server_label: 'own', require_approval: 'never' }

/** Whether an MCP server cannot be used: one of the config, or a caller's. */
export const hasMcpObstacle = (gateway: Gateway, parameters: Json = MCP) =>
  hasObstacle(mcp, gateway, parameters)

/** Returns how long one use of a server may take, in milliseconds. */
export function readMcpTimeout(gateway: Gateway): number | undefined {
  const server = resolveServer(gateway.config, mcp.readOptions(MCP, 'p'))
  return 'obstacle' in server ? undefined : server.timeoutMilliseconds
}

/** Whether a user who needs 20 ms to approve a call is too late. */
export async function isTooLate(gateway: Gateway): Promise<boolean> {
  const questions = new Map<string, (answer: Json) => void>()
  const send = () =>
    setTimeout(() => {
      for (const answer of questions.values()) answer({ result: { action: 'accept' } })
    }, 20)
  const client = {
    session: { canAsk: true, questions },
    openStream: () => ({ send }),
    signal: new AbortController().signal,
  } as unknown as Parameters<typeof getApproval>[1]
  const subject = { server: { label: 'own' }, tool: 'read', input: {} }
  const asked = getApproval(
    answerAll(gateway, () => null),
    client,
    subject as never,
  )
  return asked.then(
    () => false,
    (thrown: Error) => thrown.message.endsWith('in time'),
  )
}

/** Lists the tools of a server twice, and uses one of them, as the second use of a call. */
export async function useMcp(
  gateway: Gateway,
): Promise<{ tools: number; listings: number; result: ToolResult }> {
  let listings = 0
  const tools = ['a', 'b', 'c'].map(name => ({ name, inputSchema: { type: 'object' } }))
  const RESULTS: Json = {
    initialize: {
      protocolVersion: '2025-06-18',
      capabilities: {},
      serverInfo: { name: '', version: '' },
    },
    'tools/list': { tools },
    'tools/call': { content: [{ type: 'text', text: LARGE }] },
  }
  const world = answerAll(gateway, (_, body) => {
    const { id, method } = JSON.parse(body) as { id?: number; method: string }
    if (method === 'tools/list') listings += 1
    if (id === undefined) return new Response(null, { status: 202 })
    return Response.json({ jsonrpc: '2.0', id, result: RESULTS[method] })
  })
  const use = buildUse(mcp, MCP, {}, { name: 'own__a', uses: 1 })
  await mcp.listFunctions(world, use)
  const functions = await mcp.listFunctions(world, use)
  return { tools: functions.length, listings, result: await mcp.run(world, use) }
}

function follow(signal: AbortSignal | undefined) {
  const cancellation = new Cancellation()
  signal?.addEventListener('abort', () => cancellation.cancel(clientLeft()))
  return { cancellation }
}
