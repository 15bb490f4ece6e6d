import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { drawScreens, replaceScreens } from '../../support/screens.ts'

test('docs/tui.md shows every view as it is: bun run screens draws them', async () => {
  const text = await Bun.file(resolve(import.meta.dir, '../../../docs/tui.md')).text()
  const drawn = await drawScreens()
  for (const name of Object.keys(drawn)) expect(text).toContain(`<!-- screen: ${name} -->`)
  expect(replaceScreens(text, drawn)).toBe(text)
})
