import { describe, expect, test } from 'bun:test'
import { getOperator } from '../../src/resources/actor.ts'
import { toPublicModel } from '../../src/resources/models/view.ts'
import { getModel } from '../../src/resources/models.ts'
import { createScimToken } from '../../src/resources/scim/tokens.ts'
import { createApp } from '../../src/server/app.ts'
import { renderModelsFeed } from '../../src/server/routes/models.ts'
import { testGateway } from '../support/gateway.ts'

test('a feed is well-formed for every model name', async () => {
  const echo = toPublicModel(getModel(await testGateway(), 'sandbox/echo'))
  const model = { ...echo, id: 'acme/"&<x>', name: 'a\0\x01\x1b[31m\b\ufffe\ud800b\tc]]> & <i> 😀' }
  const xml = await renderModelsFeed([model], 'gateway', 'http://127.0.0.1').text()
  expect(xml).toContain('<title>ab\tc]]&gt; &amp; &lt;i&gt; 😀</title>')
  expect(xml).toContain('<guid isPermaLink="false">acme/&quot;&amp;&lt;x&gt;</guid>')
})

test('an item has the day of its release, where it is known', async () => {
  const echo = toPublicModel(getModel(await testGateway(), 'sandbox/echo'))
  const feed = (created: number) =>
    renderModelsFeed([{ ...echo, created }], 'gateway', 'http://127.0.0.1').text()
  expect(await feed(1_760_486_400)).toContain('<pubDate>Wed, 15 Oct 2025 00:00:00 GMT</pubDate>')
  expect(await feed(0)).not.toContain('pubDate')
})

describe('every absolute URL in answers is under the site’s URL', () => {
  const SITE = 'https://ai.acme.example/gateway'

  test.each([
    ['the feed', '/models?use_rss=true'],
    ['SCIM', '/scim/v2/ResourceTypes'],
  ])('%s, whatever the Host is', async (_, path) => {
    const gateway = await testGateway({ config: { server: { site_url: `${SITE}/` } } })
    const { token } = await createScimToken(gateway, getOperator(gateway), { name: 'test' })
    const headers = { host: 'evil.example', authorization: `Bearer ${token}` }
    const url = `http://evil.example/api/v1${path}`
    const text = await (await createApp(gateway).handle(new Request(url, { headers }))).text()
    expect(text).toContain(`${SITE}/api/v1/`)
    expect(text.replaceAll(`${SITE}/`, '')).not.toMatch(/https?:\/\//)
    expect(text).not.toContain('evil.example')
  })
})
