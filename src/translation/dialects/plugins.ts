import { Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { closeSchema, LONGEST_NAME, open } from '../../base/schema-builders.ts'
import type { CallBase } from '../../language/call.ts'
import { PLUGIN_ENTRIES } from './plugin-entries.ts'
import type { DialectWorld } from './world.ts'

const IDS = PLUGIN_ENTRIES.map(({ properties }) => properties.id.const)
const OTHER_ID = `^(?!(${IDS.join('|')})$).`

/**
 * An entry of a body's `plugins`. Its fields depend on its `id` (wire reference C.4), and others are
 * refused: here, or by the plugin that has no schema. `readPlugins` refuses an unknown `id`.
 */
export const Plugin = Type.Union([
  ...PLUGIN_ENTRIES.map(closeSchema),
  Type.Object(
    {
      id: Type.String({ pattern: OTHER_ID, maxLength: LONGEST_NAME }),
      enabled: Type.Optional(Type.Boolean()),
    },
    open,
  ),
])
export type Plugin = Json & { id: string; enabled?: boolean }

/**
 * Reads the options of a body's plugins, as a field to spread into the call; empty if there are
 * none. Of two entries with one id the last counts. Throws 400 for a plugin that would have no
 * effect, and the 400 that a plugin throws.
 */
export function readPlugins(
  { plugins, config }: Pick<DialectWorld, 'plugins' | 'config'>,
  entries: unknown[] | null | undefined,
): Pick<CallBase, 'plugins'> {
  const requested: Record<string, unknown> = {}
  for (const [i, entry] of ((entries ?? []) as Plugin[]).entries()) {
    const plugin = plugins.find(({ id }) => id === entry.id)
    if (plugin)
      requested[plugin.id] =
        entry.enabled === false ? null : plugin.readOptions(entry, `plugins.${i}`, config)
    else refuseMissing(plugins, `plugins.${i}.id`)
  }
  return Object.keys(requested).length > 0 ? { plugins: requested } : {}
}

function refuseMissing(plugins: DialectWorld['plugins'], at: string): never {
  const names = plugins.map(plugin => plugin.id).join(', ')
  throw invalid(`${at}: expected one of ${names}, found an unknown plugin`, at)
}
