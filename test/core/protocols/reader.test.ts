import { expect, test } from 'bun:test'
import { choiceAt, Garbage, isWebAddress, urlCitation } from '../../../src/core/protocols/reader.ts'

test('an alternative is known by its index, or by its position where it has none', () => {
  expect([choiceAt(2, 0), choiceAt(undefined, 1), choiceAt('2', 1), choiceAt(127, 0)]).toEqual([
    2, 1, 1, 127,
  ])
  expect([
    choiceAt(-1, 0),
    choiceAt(1.5, 0),
    choiceAt(Number.NaN, 0),
    choiceAt(128, 0),
    choiceAt(null, 128),
  ]).toEqual(Array(5).fill(undefined))
})

test('twenty events that nobody can read are passed over, one more ends the stream', () => {
  const garbage = new Garbage()
  for (let i = 0; i < 20; i++) expect(garbage.pass()).toEqual([])
  expect(() => garbage.pass()).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
})

test('a source has what is known of it, and no place for the rest', () => {
  const citation = {
    title: null,
    content: 'Hi',
    start_index: 0,
    end_index: undefined,
    license: 'mit',
  }
  expect(urlCitation('https://a.example/', citation)).toEqual({
    type: 'url_citation',
    url_citation: { url: 'https://a.example/', content: 'Hi', start_index: 0 },
  })
})

test('pages have addresses, documents and mailboxes have none', () => {
  expect(
    ['https://a', 'HTTP://a', 'https:a', 'mailto:a@b', 'javascript://a', 'a.pdf', ''].map(
      isWebAddress,
    ),
  ).toEqual([true, true, ...Array(5).fill(false)])
})
