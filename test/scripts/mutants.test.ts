import { expect, test } from 'bun:test'
import { listBugs, plantBug } from '../../scripts/mutants/bugs.ts'
import { chooseTests, type Imports } from '../../scripts/mutants/tests.ts'

const SOURCE = `import { a } from './a.ts'
type Text = 'x' | true
const LONGEST = 5
async function wait(count: number) {
  await pause(1)
  if (!a && count < LONGEST) return count + 2
  return 'is ' + (count === 1 ? true : Math.min(count, 3))
}
`

test('bugs are planted in operators, constants, conditions and statements, and in no types', () => {
  const bugs = listBugs('src/wait.ts', SOURCE)
  expect(bugs.map(({ line, change }) => `${line}: ${change}`)).toEqual([
    '3: 5 → (5 + 1)',
    '5: without await pause(1)',
    '5: 1 → (1 + 1)',
    '6: !a && count < LONGEST → !(!a && count < LONGEST)',
    '6: && → ||',
    '6: !a → a',
    '6: < → <=',
    '6: + → -',
    '6: 2 → (2 + 1)',
    '7: count === 1 → !(count === 1)',
    '7: === → !==',
    '7: 1 → (1 + 1)',
    '7: true → false',
    '7: Math.min → Math.max',
    '7: 3 → (3 + 1)',
  ])
  const texts = bugs.map(bug => plantBug(SOURCE, bug))
  expect(texts[1]).toBe(SOURCE.replace('await pause(1)', ';'))
  expect(new Set([SOURCE, ...texts]).size).toBe(bugs.length + 1)
})

test('the tests that judge a file are its own, those of its words, and the nearest', () => {
  const imports: Imports = new Map([
    ['src/engine/kinds/image.ts', []],
    ['src/engine/plan.ts', ['src/engine/kinds/image.ts']],
    ['test/engine/kinds/image.test.ts', ['src/engine/kinds/image.ts']],
    ['test/engine/kinds.test.ts', ['src/engine/plan.ts']],
    ['test/server/images.test.ts', []],
    ['test/engine/plan.test.ts', ['src/engine/plan.ts']],
    ['test/engine/direct.test.ts', ['src/engine/kinds/image.ts']],
    ['test/engine/far.test.ts', []],
  ])
  const durations = { 'test/engine/direct.test.ts': 4_000, 'test/engine/kinds.test.ts': 100 }
  const choose = (limit: number) =>
    chooseTests('src/engine/kinds/image.ts', imports, durations, limit)
  expect(choose(100_000)).toEqual([
    'test/engine/kinds/image.test.ts',
    'test/engine/kinds.test.ts',
    'test/server/images.test.ts',
    'test/engine/direct.test.ts',
    'test/engine/plan.test.ts',
  ])
  expect(choose(0)).toEqual(['test/engine/kinds/image.test.ts'])
  expect(choose(3_200)).toHaveLength(2)
})
