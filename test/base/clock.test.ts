import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { computeFirstDay, type Period, toDayNumber } from '../../src/base/clock.ts'

const day = (date: string) => Date.parse(`${date}T00:00:00Z`) / 86_400_000
const first = (period: Period, time: string) => computeFirstDay(period, new Date(time))

describe('periods', () => {
  test('a day lasts from midnight to midnight UTC', () => {
    expect(toDayNumber(new Date('1970-01-01T00:00:00Z'))).toBe(0)
    expect(toDayNumber(new Date('2026-03-04T00:00:00.000Z'))).toBe(day('2026-03-04'))
    expect(toDayNumber(new Date('2026-03-04T23:59:59.999Z'))).toBe(day('2026-03-04'))
    expect(first('daily', '2026-03-05T00:00:00Z')).toBe(day('2026-03-05'))
  })

  test('a week runs from Monday through Sunday', () => {
    expect(first('weekly', '2026-03-02T00:00:00Z')).toBe(day('2026-03-02'))
    expect(first('weekly', '2026-03-08T23:59:59.999Z')).toBe(day('2026-03-02'))
    expect(first('weekly', '2026-03-09T00:00:00Z')).toBe(day('2026-03-09'))
  })

  test('a week may begin in another month or year', () => {
    expect(first('weekly', '2026-03-01T12:00:00Z')).toBe(day('2026-02-23'))
    expect(first('weekly', '2027-01-01T00:00:00Z')).toBe(day('2026-12-28'))
  })

  test('a month begins on its first, after a February of 28 or 29 days', () => {
    expect(first('monthly', '2026-03-01T00:00:00Z')).toBe(day('2026-03-01'))
    expect(first('monthly', '2026-02-28T23:59:59Z')).toBe(day('2026-02-01'))
    expect(first('monthly', '2028-02-29T12:00:00Z')).toBe(day('2028-02-01'))
    expect(first('monthly', '2028-03-01T00:00:00Z')).toBe(day('2028-03-01'))
  })

  test('a year boundary starts a new window at the exact second', () => {
    expect(first('daily', '2026-12-31T23:59:59.999Z')).toBe(day('2026-12-31'))
    expect(first('monthly', '2026-12-31T23:59:59.999Z')).toBe(day('2026-12-01'))
    expect(first('monthly', '2027-01-01T00:00:00Z')).toBe(day('2027-01-01'))
  })

  test('the time zone of the machine has no effect', async () => {
    const file = join(import.meta.dir, '../../src/base/clock.ts')
    const script = `const { computeFirstDay } = await import(${JSON.stringify(file)})
      const times = [
        '2026-03-08T23:30:00Z',
        '2026-03-09T00:30:00Z',
        '2026-03-29T01:30:00Z',
        '2026-12-31T23:30:00Z',
      ]
      const days = times.map(time =>
        ['daily', 'weekly', 'monthly'].map(period => computeFirstDay(period, new Date(time))))
      process.stdout.write(JSON.stringify(days))`
    const under = async (TZ: string) =>
      await new Response(
        Bun.spawn([process.execPath, '-e', script], { env: { ...process.env, TZ }, stdout: 'pipe' })
          .stdout,
      ).text()
    const [utc, ...others] = await Promise.all(
      ['UTC', 'Pacific/Kiritimati', 'America/Los_Angeles', 'Europe/Berlin'].map(under),
    )
    expect(JSON.parse(utc ?? '')).toHaveLength(4)
    for (const other of others) expect(other).toBe(utc ?? '')
  })
})
