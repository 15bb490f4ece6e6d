import type { Gateway } from '../app/gateway.ts'
import { budgets } from '../limits/budgets/operations.ts'
import { credits } from '../limits/credits.ts'
import { guardrails } from '../limits/guardrails/operations.ts'
import { alerts } from '../observability/alerts/operations.ts'
import { destinations } from '../observability/destinations/operations.ts'
import { type Metrics, openMetrics } from '../observability/metrics.ts'
import { audit } from '../resources/audit.ts'
import { byok } from '../resources/byok/operations.ts'
import { keys } from '../resources/keys/operations.ts'
import { members } from '../resources/members/operations.ts'
import type { Access, Noun, Operation } from '../resources/operation.ts'
import { presets } from '../resources/presets/operations.ts'
import { groups, mappings, syncJobs } from '../resources/scim/operations.ts'
import { workspaces } from '../resources/workspaces/operations.ts'
import { PATHS } from './paths.data.ts'

/** Counts for `/metrics` from now on. Null where that has an address of its own. */
export const openOwnMetrics = (gateway: Gateway): Metrics | null =>
  gateway.config.server.metrics_address === undefined ? openMetrics(gateway) : null

/** The nouns, whose tables say their routes. */
export const NOUNS: Noun<Access, Record<string, Operation>>[] = [
  alerts,
  audit,
  budgets,
  byok,
  credits,
  destinations,
  groups,
  guardrails,
  keys,
  mappings,
  members,
  presets,
  syncJobs,
  workspaces,
]

/** Lists the paths of the app, without creating it. */
export const listPaths = (metrics: Metrics | null): string[] => [
  ...PATHS.filter(path => path !== '/metrics' || metrics !== null),
  ...new Set(NOUNS.flatMap(({ operations }) => Object.values(operations).flatMap(listPath))),
]

const listPath = ({ route }: Operation) => (route ? [`/api/v1${route.path}`] : [])
