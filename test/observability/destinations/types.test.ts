import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { KINDS } from '../../../src/observability/destinations/registry.ts'
import { COLUMNS } from '../../../src/observability/destinations/rows.ts'

const text = await Bun.file(join(import.meta.dir, '../../../docs/destinations/types.md')).text()

const findSection = (type: string): string =>
  text.split(/^## /m).find(section => section.startsWith(`${type}\n`)) ?? ''

/** Types that came after the guide was last written have no paragraph: a how-to adds one. */
const DESCRIBED = KINDS.filter(({ type }) => text.includes(`(#${type})`))

describe('the guide of types', () => {
  test('has the 17 types of the contract', () => {
    expect(DESCRIBED).toHaveLength(17)
    expect(text.split('\n').filter(line => line.startsWith('## '))).toEqual(
      DESCRIBED.map(({ type }) => `## ${type}`),
    )
  })

  test.each(DESCRIBED.map(kind => [kind.type, kind] as const))(
    '%s: names only fields that there are',
    (type, { config }) => {
      const fields = Object.keys(config.properties)
      const named = [...findSection(type).matchAll(/`([a-z]+[A-Z]\w*)`/g)].map(([, name]) => name)
      for (const name of named) expect(fields).toContain(name as string)
    },
  )

  test.each(['clickhouse', 'snowflake'])('%s: makes a table with every column', type => {
    const [, sql = ''] = /```sql\n([\s\S]*?)```/.exec(findSection(type)) ?? []
    const columns = [...sql.matchAll(/\b([A-Z]+(?:_[A-Z]+)*) (?=[A-Z])/g)].map(([, name]) => name)
    for (const name of Object.keys(COLUMNS)) expect(columns).toContain(name)
  })
})
