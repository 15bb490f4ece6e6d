import { describe, expect, test } from 'bun:test'
import type { ProviderFacts } from '../../../src/resources/providers/facts.data.ts'
import { FACTS } from '../../../src/resources/providers/facts.data.ts'
import { getDataPolicy, getProviderFacts } from '../../../src/resources/providers/facts.ts'
import { PROVIDERS } from '../../../src/resources/providers.data.ts'

const facts: [string, Partial<ProviderFacts>][] = Object.entries(FACTS)

describe('the facts of providers', () => {
  test('are those of existing providers', () => {
    expect(facts.filter(([slug]) => !Object.hasOwn(PROVIDERS, slug))).toEqual([])
  })

  test('are https addresses, countries and days', () => {
    const urls = facts.flatMap(([, one]) =>
      [one.privacy_policy_url, one.terms_of_service_url, one.status_page_url].filter(
        url => url != null,
      ),
    )
    expect(urls.filter(url => !(URL.canParse(url) && url.startsWith('https://')))).toEqual([])
    const countries = facts.flatMap(([, one]) =>
      [one.headquarters ?? [], one.datacenters ?? []].flat(),
    )
    expect(countries.filter(country => !/^[A-Z]{2}$/.test(country))).toEqual([])
    const days = facts.flatMap(([, one]) => one.retention_days ?? [])
    expect(days.filter(one => !Number.isInteger(one) || one < 0)).toEqual([])
  })

  test('that are uncertain count as training, and as retention for an unknown time', () => {
    expect(getDataPolicy('nobody')).toEqual({ training: true, retention_days: null })
    expect(getDataPolicy('toString')).toEqual({ training: true, retention_days: null })
    expect(getDataPolicy('google')).toEqual({ training: true, retention_days: null })
    expect(getDataPolicy('deepinfra')).toEqual({ training: true, retention_days: null })
    expect(getDataPolicy('bedrock')).toEqual({ training: false, retention_days: 0 })
    expect(getProviderFacts('nobody').headquarters).toBeNull()
  })
})

test('provider rows have an https or local address or none, and names unique per protocol', () => {
  const rows = Object.entries(PROVIDERS)
  const open = rows.filter(
    ([, { base_url }]) =>
      base_url && !/^(https:\/\/|http:\/\/127\.0\.0\.1|sandbox:)/.test(base_url),
  )
  expect(open).toEqual([])
  expect(new Set(rows.map(([, { name, protocol }]) => `${name} by ${protocol}`)).size).toBe(
    rows.length,
  )
})
