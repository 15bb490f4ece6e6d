import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { countResults, describeTrial, mapScenarios, readTests } from '../../scripts/reliability.ts'
import { ABSENT, COMMANDS, SCENARIOS } from '../../scripts/scenarios.data.ts'

test('numbers of scenarios are read from the names of tests and of their groups only', () => {
  const text = `
    // U-04 is not here
    describe('A-06 kill -9', () => {
      test(\`S-01 \${rounds} rounds, as in A-05\`, async () => {})
      test.each(CASES)('X-01 X-02 %s', () => {})
      expect('U-01').toBe('U-01')
      test('Z-99 R-99', () => {})
      test.each([['U-02 a row', 1]])('%s', () => {})
    })`
  expect([...mapScenarios(new Map([['a.test.ts', text]])).keys()]).toEqual([
    ...['A-06', 'S-01', 'A-05', 'X-01', 'X-02', 'U-02'],
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

test('docs/reliability.md names the tests of every scenario, or why there is none', async () => {
  const page = await Bun.file(join(import.meta.dir, '../../docs/reliability.md')).text()
  const map = mapScenarios(readTests())
  for (const number of Object.keys(SCENARIOS)) {
    const [first = ''] = describeTrial(number, map, new Map()).split(' | ')
    for (const part of first.split(', '))
      expect(page, `${number}: run bun run reliability`).toMatch(
        new RegExp(`\\| ${number} \\|[^\\n]*${RegExp.escape(part)}`),
      )
  }
  expect(page).not.toContain('| not tried |')
  expect(page).not.toContain(' failed |')
  expect(page.match(/^\| P\d+ \|.*\| holds \|/gm)).toHaveLength(15)
})

test('a scenario has a test, a command or a reason, and only one of them', () => {
  const map = mapScenarios(readTests())
  for (const number of Object.keys(SCENARIOS))
    expect([
      number,
      Number(map.has(number)) + Number(number in COMMANDS) + Number(number in ABSENT),
    ]).toEqual([number, 1])
  for (const number of [...Object.keys(COMMANDS), ...Object.keys(ABSENT)])
    expect(Object.keys(SCENARIOS)).toContain(number)
})
