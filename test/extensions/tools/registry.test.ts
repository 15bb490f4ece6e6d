import { expect, test } from 'bun:test'
import { SERVER_TOOL_NAMES } from '../../../src/config/tools.ts'
import { TOOLS } from '../../../src/extensions/tools/registry.ts'
import { SAMPLES } from '../../suites/server-tool/samples.ts'
import { testServerTool } from '../../suites/server-tool.ts'

for (const tool of TOOLS) testServerTool(tool, SAMPLES[tool.name])

test('the config names every tool', () => {
  expect(TOOLS.map(({ name }) => name).sort()).toEqual([...SERVER_TOOL_NAMES])
})

test('no two tools have a name in common', () => {
  const names = TOOLS.flatMap(({ name, aliases = [] }) => [name, ...aliases])
  expect(new Set(names).size).toBe(names.length)
})
