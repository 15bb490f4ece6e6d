import type { Config } from '../../config.ts'
import { joinUrl } from './config.ts'
import { otelCollector } from './kinds/otel-collector.ts'
import type { OpenedDestination } from './opened.ts'

/** The id of the operator's own destination: the name of its setting. */
export const OPERATOR_ID = 'telemetry.otlp'

const openedByConfig = new WeakMap<Config, OpenedDestination | null>()

/**
 * Returns the destination that the config names: it is told of the calls of every workspace, and no
 * API shows or changes it. Null if there is none, or if it is told metrics alone.
 */
export function getOperatorDestination({ config }: { config: Config }): OpenedDestination | null {
  const known = openedByConfig.get(config)
  if (known !== undefined) return known
  const opened = openOperatorDestination(config)
  openedByConfig.set(config, opened)
  return opened
}

function openOperatorDestination({ telemetry: { otlp } }: Config): OpenedDestination | null {
  if (!otlp?.traces) return null
  const { endpoint, headers, content, sampling_rate } = otlp
  return {
    destination: {
      ...{ id: OPERATOR_ID, name: OPERATOR_ID, workspace_id: '', type: otelCollector.type },
      ...{ sealed: '', enabled: true, paused_at: null, created_at: '', updated_at: '' },
      ...{ api_key_hashes: null, filter_rules: null, regions: [], sampling_rate },
      broadcast_generation_cost: true,
      broadcast_generation_identity: true,
      broadcast_generation_request_context: true,
      privacy_mode: !content,
    },
    kind: otelCollector,
    config: { endpoint: joinUrl(endpoint, '/v1/traces'), headers },
  }
}

/** Whether a destination is the operator's own. */
export const isOperators = ({ destination }: { destination: { id: string } }): boolean =>
  destination.id === OPERATOR_ID

/** Finds a destination among those of the workspaces and the operator's own. */
export const findDestination = (
  world: {
    config: Config
    memory: { destinations: { get(id: string): OpenedDestination | undefined } }
  },
  id: string,
): OpenedDestination | undefined =>
  id === OPERATOR_ID
    ? (getOperatorDestination(world) ?? undefined)
    : world.memory.destinations.get(id)
