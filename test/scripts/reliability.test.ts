import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { countResults, mapScenarios, readTests } from '../../scripts/reliability.ts'
import { SCENARIOS } from '../../scripts/scenarios.data.ts'

test('numbers of scenarios are read from the names of tests and of their groups only', () => {
  const text = `
    // U-04 is not here
    describe('A-06 kill -9', () => {
      test(\`S-01 \${rounds} rounds, as in A-05\`, async () => {})
      test.each(CASES)('X-01 X-02 %s', () => {})
      expect('U-01').toBe('U-01')
      test('Z-99 R-99', () => {})
    })`
  expect([...mapScenarios(new Map([['a.test.ts', text]])).keys()]).toEqual([
    ...['A-06', 'S-01', 'A-05', 'X-01', 'X-02'],
  ])
})

test('results are counted by scenario, with the groups that a test is in', () => {
  const report = `<testsuite>
    <testcase name="S-01 one" classname="A-06 kills" />
    <testcase name="two" classname="A-06 kills"><failure type="x" /></testcase>
    <testcase name="S-01 three"><skipped /></testcase></testsuite>`
  expect([...countResults(report)]).toEqual([
    ['S-01', { passed: 1, failed: 0, skipped: 1 }],
    ['A-06', { passed: 1, failed: 1, skipped: 0 }],
  ])
})

test('docs/reliability.md names the tests of every scenario that has some, and admits the rest', async () => {
  const page = await Bun.file(join(import.meta.dir, '../../docs/reliability.md')).text()
  const map = mapScenarios(readTests())
  const missing = Object.keys(SCENARIOS).filter(number => !map.has(number))
  for (const [number, paths] of map)
    for (const path of paths)
      expect(page, `${number} in ${path}: run bun run reliability`).toMatch(
        new RegExp(`\\| ${number} \\|[^\\n]*\`${path.slice('test/'.length)}\``),
      )
  for (const number of missing) expect(page).toContain(`- ${number}: `)
  expect(page).not.toContain(' failed |')
  expect(page.match(/^\| P\d+ \|.*\| holds \|/gm)).toHaveLength(15)
})
