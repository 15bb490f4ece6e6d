import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import type { Json } from '../../../base/json.ts'
import { closed, optional } from '../../../base/schema-builders.ts'
import type { ToolReading } from '../../../language/server-tools.ts'
import { requireFiles } from '../../../network/containers/commands.ts'
import { nameCallContainer, nameSessionContainer } from '../../../network/containers/names.ts'
import { type AllowedHosts, readAllowedHosts } from '../../../network/containers/network.ts'
import { requireSandbox } from '../../../network/containers/warm.ts'
import type { ToolContext } from '../../server-tool.ts'
import type { ExtensionWorld } from '../../world.ts'

const Network = Type.Union([
  Type.Object({ type: Type.Literal('disabled') }, closed),
  Type.Object(
    {
      type: Type.Literal('allowlist'),
      allowed_domains: Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
        minItems: 1,
        maxItems: 50,
      }),
    },
    closed,
  ),
])

const SHARED = {
  file_ids: optional(
    Type.Array(
      Type.String({
        pattern: '^or_file_[0-9a-f]{32}$',
        maxLength: 40,
        title: 'the id of a file of the workspace',
      }),
      { maxItems: 20 },
    ),
  ),
  network_policy: optional(Network),
}

/** Where commands run (wire reference D.6). */
export const Environment = Type.Union([
  Type.Object({ type: Type.Literal('container_auto'), ...SHARED }, closed),
  Type.Object(
    {
      type: Type.Literal('container_reference'),
      container_id: Type.String({
        pattern: '^[\\w-]+$',
        minLength: 1,
        maxLength: 40,
        title: 'letters, digits, _ and -, at most 40',
      }),
      ...SHARED,
    },
    closed,
  ),
])

/** The container that a call asks for. */
export interface EnvironmentOptions {
  /** The name that the call gives; null for the container of its session. */
  container_id: string | null
  /** The container that the conversation used last; null if it has none. */
  replayed: string | null
  file_ids: string[]
  /** The hosts that commands may ask; none: no network. */
  hosts: AllowedHosts
}

/** Reads where commands run. Throws 400 for a host that is none. */
export function readEnvironment(
  environment: Static<typeof Environment> | null | undefined,
  path: string,
  reading?: ToolReading,
): EnvironmentOptions {
  const policy = environment?.network_policy
  return {
    container_id: environment && 'container_id' in environment ? environment.container_id : null,
    replayed: reading?.findReplayed?.('container_id') ?? null,
    file_ids: [...new Set(environment?.file_ids ?? [])],
    hosts:
      policy?.type === 'allowlist'
        ? readAllowedHosts(policy.allowed_domains, `${path}.network_policy.allowed_domains`)
        : [],
  }
}

/**
 * Checks what a call wants of its container, before a model is asked. Throws 400 for a file that
 * does not exist in the workspace and for a network where commands can have none, and 409 where the
 * container runs with another policy (wire reference F.4).
 */
export async function requireEnvironment(
  world: ExtensionWorld,
  context: ToolContext<EnvironmentOptions & { path: string }>,
): Promise<void> {
  const { options, run } = context
  const { path, file_ids, hosts } = options
  const { workspace_id } = run.actor
  await requireFiles(world, workspace_id, file_ids, `${path}.environment.file_ids`)
  const obstacle = hosts.length > 0 ? requireSandbox(world).findNetworkObstacle() : null
  const field = `${path}.environment.network_policy`
  if (obstacle !== null) throw invalid(`${field}: expected disabled: ${obstacle}`, field)
  world.warm.requireHosts(workspace_id, nameContainer(context), hosts)
}

/** Describes where commands run, for a model. */
export const describeMachine = ({ hosts }: Pick<EnvironmentOptions, 'hosts'>): string =>
  hosts.length === 0
    ? 'a Linux machine without a network'
    : `a Linux machine that reaches these hosts alone, by the proxy in http_proxy and https_proxy: ${hosts.join(', ')}`

/** Returns the name of the container that a call means (wire reference F.4). */
export function nameContainer({ options, run }: ToolContext<EnvironmentOptions>): string {
  const { call } = run
  if (options.container_id !== null) return options.container_id
  const key = call.kind === 'text' ? call.params.prompt_cache_key : undefined
  return (
    nameSessionContainer(call.session_id) ??
    nameSessionContainer(key) ??
    options.replayed ??
    nameCallContainer(call.id)
  )
}

/** Returns why no commands can run with this configuration; null if they can. */
export function findSandboxObstacle({ config, sandboxes }: ExtensionWorld): string | null {
  const { kind } = config.sandbox
  if (kind === false) return 'sandbox.kind in the config names no sandbox'
  const sandbox = sandboxes.find(({ name }) => name === kind)
  return sandbox ? sandbox.obstacle && `${kind}: ${sandbox.obstacle}` : `there is no ${kind}`
}

/** The parameters that commands of both tools may have. */
export const LIMITS = {
  timeout_ms: {
    type: 'integer',
    description: 'The longest time of a command in milliseconds: 120000 if omitted, at most 300000',
  },
} satisfies Json
