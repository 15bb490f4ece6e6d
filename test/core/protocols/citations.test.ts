import { expect, test } from 'bun:test'
import { isWebAddress, urlCitation } from '../../../src/core/protocols/citations.ts'

test('a source has what is known of it, and no place for the rest', () => {
  const citation = { title: null, content: 'Hi', start_index: 0, end_index: undefined, license: 'mit' }
  expect(urlCitation('https://a.example/', citation)).toEqual({
    type: 'url_citation',
    url_citation: { url: 'https://a.example/', content: 'Hi', start_index: 0 },
  })
})

test('pages have addresses, documents and mailboxes have none', () => {
  expect(['https://a', 'HTTP://a', 'https:a', 'mailto:a@b', 'javascript://a', 'a.pdf', ''].map(isWebAddress)).toEqual([
    true,
    true,
    ...Array(5).fill(false),
  ])
})
