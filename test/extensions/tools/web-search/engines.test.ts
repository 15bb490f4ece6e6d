import { expect, test } from 'bun:test'
import { ENGINE_NAMES } from '../../../../src/config/tools.ts'
import { ENGINES } from '../../../../src/extensions/tools/web-search/registry.ts'
import { testSearchEngine } from '../../../suites/search-engine.ts'

test('the config names every engine of the list', () => {
  expect(ENGINES.map(({ name }) => name)).toEqual([...ENGINE_NAMES])
})

for (const engine of ENGINES) testSearchEngine(engine)
