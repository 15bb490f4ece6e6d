import { expect, test } from 'bun:test'
import { toPublicPrices } from '../../../src/resources/models/view.ts'
import { toExactPrices } from '../../../src/resources/prices.ts'

const TOKENS = { prompt: 1, completion: 2 }

const shown = (units: object): object => toPublicPrices(toExactPrices({ ...TOKENS, ...units }))

test('unit prices are listed under their public names, in USD per unit', () => {
  const units = { request: 0.005, web_search: 0.01, per_input_image: 0.002, per_image: 0.04 }
  expect(shown(units)).toEqual({
    prompt: '0.000001',
    completion: '0.000002',
    request: '0.005',
    web_search: '0.01',
    image: '0.002',
    image_output: '0.04',
  })
})

test('prices without a public name are left out', () => {
  const units = {
    per_second: 0.5,
    per_megapixel: 0.02,
    per_character: 0.000015,
    per_search_unit: 0.002,
  }
  expect(shown(units)).toEqual({ prompt: '0.000001', completion: '0.000002' })
})
