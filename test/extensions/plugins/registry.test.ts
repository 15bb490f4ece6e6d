import { expect, test } from 'bun:test'
import { getRouterPluginId } from '../../../src/engine/plan/router-decision.ts'
import { PLUGINS } from '../../../src/extensions/plugins/registry.ts'
import { ROUTERS } from '../../../src/language/routing.ts'
import { SAMPLES } from '../../suites/plugin/samples.ts'
import { testPlugin } from '../../suites/plugin.ts'

for (const plugin of PLUGINS) testPlugin(plugin, SAMPLES[plugin.id])

test('no two plugins have the same id', () => {
  expect(new Set(PLUGINS.map(({ id }) => id)).size).toBe(PLUGINS.length)
})

test('every router has the plugin that decides for it, and no other plugin decides', () => {
  const deciding = PLUGINS.filter(({ decide }) => decide).map(({ id }) => id)
  expect(deciding.toSorted()).toEqual(ROUTERS.map(getRouterPluginId).toSorted())
})
