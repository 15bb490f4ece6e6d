import { toNanos } from '../../../base/money.ts'
import type { McpOauth, McpServerConfig } from '../../../config/tools.ts'
import type { Config } from '../../../config.ts'
import type { Service } from '../../../limits/rules.ts'
import { listTokens } from './oauth.ts'
import type { ApprovalRule, McpOptions } from './options.ts'

/** An MCP server as it is called: a caller's, or one of the config. */
export interface McpServer {
  label: string
  /** Null for a program. */
  url: string | null
  /** What the operator has the gateway run in place of a URL. No call can name one. */
  program: McpProgram | null
  /** Sent with every request, by lower-case name. No result and no error shows them. */
  headers: Record<string, string>
  /** Where its tokens come from; null if it needs none, or has one among its headers. */
  oauth: McpOauth | null
  /** Whether the operator named it. A caller's is called only if it is public. */
  isConfigured: boolean
  /** The tools that the operator allows; null: any. */
  operatorTools: string[] | null
  approval: ApprovalRule
  /** What one call of a tool costs, in nano-dollars; null if it has no price. */
  price: bigint | null
  timeoutMilliseconds: number
  /** What the operator has agreed with who runs it. */
  data_policy?: Service['data_policy']
}

/** A program of the operator that is an MCP server. */
export interface McpProgram {
  command: string[]
  env: Record<string, string>
  cwd: string
}

/** Returns the server that a call names, or why it cannot be used. */
export function resolveServer(
  config: Config,
  options: McpOptions,
): McpServer | { obstacle: string } {
  if (!config.mcp.enabled) return { obstacle: 'mcp is switched off (mcp.enabled)' }
  if (options.server_url !== null) return resolveCallersServer(config, options, options.server_url)
  const { server_label: label } = options
  const obstacle = findServerObstacle(config, label)
  const settings = Object.hasOwn(config.mcp_servers, label) ? config.mcp_servers[label] : undefined
  if (!settings || obstacle !== null) return { obstacle: `the MCP server ${label} ${obstacle}` }
  const { authorization, headers = {}, timeout_seconds, data_policy } = settings
  return {
    label,
    url: settings.url ?? null,
    program: readProgram(settings),
    oauth: settings.oauth ?? null,
    headers: {
      ...Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
      ),
      ...(authorization === undefined ? {} : { authorization: `Bearer ${authorization}` }),
    },
    isConfigured: true,
    data_policy,
    operatorTools: settings.allowed_tools ?? null,
    // What the operator has decided is a floor: a caller may ask for more approvals, and for no fewer.
    approval:
      settings.require_approval === 'always'
        ? requireOf('always')
        : (options.approval ?? requireOf(settings.require_approval ?? 'always')),
    price: settings.usd_per_call === undefined ? null : toNanos(settings.usd_per_call),
    timeoutMilliseconds: (timeout_seconds ?? config.mcp.timeout_seconds) * 1000,
  }
}

function resolveCallersServer(
  { mcp }: Config,
  { server_label: label, headers, approval }: McpOptions,
  url: string,
): McpServer | { obstacle: string } {
  if (!mcp.server_urls)
    return { obstacle: 'this gateway calls only the MCP servers of its config (mcp.server_urls)' }
  return {
    ...{
      label,
      url,
      program: null,
      oauth: null,
      headers,
      isConfigured: false,
      operatorTools: null,
      price: null,
    },
    approval: approval ?? requireOf('always'),
    timeoutMilliseconds: mcp.timeout_seconds * 1000,
  }
}

/** Reads which program a server is; null for one with a URL. */
export const readProgram = ({
  command,
  env = {},
  cwd = '/',
}: McpServerConfig): McpProgram | null => (command ? { command, env, cwd } : null)

const requireOf = (others: 'always' | 'never'): ApprovalRule => ({ always: [], never: [], others })

/** Returns why a server of the config cannot be used; null if it can. */
export function findServerObstacle({ mcp_servers }: Config, label: string): string | null {
  const settings = Object.hasOwn(mcp_servers, label) ? mcp_servers[label] : undefined
  if (!settings) return 'is not in the config (mcp_servers): expected server_url'
  return settings.enabled === false ? `is switched off (mcp_servers.${label}.enabled)` : null
}

/** Lists what no result may show: its headers, its tokens, and secrets of its environment. */
export const listSecrets = ({ headers, oauth, program }: McpServer): string[] => [
  ...Object.values(headers).flatMap(value => [value, value.replace(/^Bearer /, '')]),
  ...(oauth ? [oauth.client_secret ?? '', ...listTokens(oauth)] : []),
  ...Object.entries(program?.env ?? {}).flatMap(([name, value]) =>
    SECRET.test(name) ? value : [],
  ),
]

/** What the names of variables have whose values are secrets; others are paths and switches. */
const SECRET = /AUTH|CREDENTIAL|KEY|PASS|SECRET|TOKEN/i
