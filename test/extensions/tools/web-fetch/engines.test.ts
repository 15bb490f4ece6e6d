import { expect, test } from 'bun:test'
import { FETCH_ENGINE_NAMES } from '../../../../src/config/tools.ts'
import { FETCH_ENGINES } from '../../../../src/extensions/tools/web-fetch/registry.ts'
import { testFetchEngine } from '../../../suites/fetch-engine.ts'

test('the config names every service of the list', () => {
  expect(FETCH_ENGINES.map(({ name }) => name)).toEqual([...FETCH_ENGINE_NAMES])
})

for (const engine of FETCH_ENGINES) testFetchEngine(engine)
