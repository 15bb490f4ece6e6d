import { GatewayError } from '../base/errors.ts'
import { describeIssue, findSchemaIssue, type SchemaIssue } from '../base/schema.ts'
import type { FoundIssue } from '../config/issues.ts'
import type { Config, PluginDefaults } from '../config.ts'
import type { Run } from '../engine/run.ts'
import type { CallBase } from '../language/call.ts'
import type { Plugin, PluginWorld } from './plugin.ts'

type Options = NonNullable<CallBase['plugins']>

/** The options of plugins that calls of a workspace have unasked. */
interface ReadDefaults {
  options: Options
  /** Those of them that a call cannot replace. */
  locked: Options
}

/** The defaults of a config: of all workspaces, and of those that have their own. */
interface AllDefaults {
  common: ReadDefaults | null
  byWorkspace: Map<string, ReadDefaults | null>
  /** What is wrong in them; a config that runs has none. */
  issues: FoundIssue[]
}

/**
 * Returns the options of the plugins of a run's call, with the defaults of its workspace: the call's
 * own entries take precedence, unless overrides are prevented. Undefined if there are none.
 */
export function resolvePluginOptions(world: PluginWorld, run: Run): CallBase['plugins'] {
  const { common, byWorkspace } = getDefaults(world.config, world.plugins)
  const { plugins } = run.call
  if (!common && byWorkspace.size === 0) return plugins
  const slug = world.memory.workspaces.get(run.actor.workspace_id)?.slug ?? ''
  const defaults = byWorkspace.has(slug) ? byWorkspace.get(slug) : common
  return defaults ? { ...defaults.options, ...plugins, ...defaults.locked } : plugins
}

/** Lists what is wrong in the defaults of a config. */
export const listPluginIssues = (config: Config, plugins: Plugin[]): FoundIssue[] =>
  getDefaults(config, plugins).issues

const defaultsByConfig = new WeakMap<Config, AllDefaults>()

function getDefaults(config: Config, plugins: Plugin[]): AllDefaults {
  const known = defaultsByConfig.get(config)
  if (known) return known
  const { workspaces, ...common } = config.plugins
  const reading: Reading = { config, plugins, issues: [] }
  const read = {
    common: readDefaults(common, ['plugins'], reading),
    byWorkspace: new Map(
      Object.entries(workspaces).map(([slug, defaults]) => [
        slug,
        readDefaults(defaults, ['plugins', 'workspaces', slug], reading),
      ]),
    ),
    issues: reading.issues,
  }
  defaultsByConfig.set(config, read)
  return read
}

/** What entries are read with, and what was found wrong so far. */
interface Reading {
  config: Config
  plugins: Plugin[]
  issues: FoundIssue[]
}

function readDefaults(
  { defaults = [], prevent_overrides = [] }: PluginDefaults,
  at: string[],
  reading: Reading,
): ReadDefaults | null {
  const options: Options = {}
  for (const [i, entry] of defaults.entries())
    options[entry.id] = readEntry(entry, [...at, 'defaults', String(i)], reading)
  for (const [i, id] of prevent_overrides.entries())
    if (!(id in options))
      addIssue(
        reading,
        [...at, 'prevent_overrides', String(i)],
        `expected a plugin of the defaults, found ${id}`,
      )
  const locked = Object.fromEntries(prevent_overrides.map(id => [id, options[id]]))
  return defaults.length > 0 ? { options, locked } : null
}

const addIssue = ({ issues }: Reading, names: string[], reason: string) =>
  issues.push({ names, message: `${names.join('.')}: ${reason}` })

function readEntry(
  entry: { id: string; enabled?: unknown },
  at: string[],
  reading: Reading,
): unknown {
  const plugin = reading.plugins.find(({ id }) => id === entry.id)
  const names = reading.plugins.map(({ id }) => id).join(', ')
  if (!plugin)
    return addIssue(reading, [...at, 'id'], `expected one of ${names}, found ${entry.id}`)
  const issue = plugin.schema && findSchemaIssue(plugin.schema, entry)
  if (issue) return addSchemaIssue(reading, at, issue)
  if (entry.enabled === false) return null
  try {
    return plugin.readOptions(entry, at.join('.'), reading.config)
  } catch (thrown) {
    const { message, metadata } = GatewayError.from(thrown)
    const names = typeof metadata.field === 'string' ? metadata.field.split('.') : at
    return reading.issues.push({ names, message })
  }
}

function addSchemaIssue({ issues }: Reading, at: string[], issue: SchemaIssue): void {
  const names = [...at, ...issue.path.split('.').filter(name => name !== '')]
  issues.push({ names, message: describeIssue(issue, names.join('.')) })
}
