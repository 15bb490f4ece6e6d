import { expect, test } from 'bun:test'
import { toPublicModel } from '../../src/core/catalog/models/view.ts'
import { getModel } from '../../src/core/catalog/models.ts'
import { renderModelsFeed } from '../../src/server/models-feed.ts'
import { testGateway } from '../support/gateway.ts'

test('a feed is well-formed for every model name', async () => {
  const echo = toPublicModel(getModel(await testGateway(), 'sandbox/echo'))
  const model = { ...echo, id: 'acme/"&<x>', name: 'a\0\x01\x1b[31m\b\ufffe\ud800b\tc]]> & <i> 😀' }
  const xml = await renderModelsFeed([model], 'gateway', new URL('http://127.0.0.1')).text()
  expect(xml).toContain('<title>ab\tc]]&gt; &amp; &lt;i&gt; 😀</title>')
  expect(xml).toContain('<guid isPermaLink="false">acme/&quot;&amp;&lt;x&gt;</guid>')
})

test('an item has the day of its release, where it is known', async () => {
  const echo = toPublicModel(getModel(await testGateway(), 'sandbox/echo'))
  const feed = (created: number) =>
    renderModelsFeed([{ ...echo, created }], 'gateway', new URL('http://127.0.0.1')).text()
  expect(await feed(1_760_486_400)).toContain('<pubDate>Wed, 15 Oct 2025 00:00:00 GMT</pubDate>')
  expect(await feed(0)).not.toContain('pubDate')
})
