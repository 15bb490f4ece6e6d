import { GatewayError } from '../../base/errors.ts'
import { allowAnyone } from '../access.ts'
import { describeOperation } from '../operation.ts'
import { Routes } from '../routes.ts'

const GONE = 410

/** Creates the old route that the public service keeps, to answer that it is gone (wire reference B.1). */
export const createCoinbaseRoutes = () =>
  new Routes(allowAnyone()).post(
    '/credits/coinbase',
    () => {
      throw new GatewayError('not_found', 'Credits cannot be bought here', { status: GONE })
    },
    describeOperation({
      id: 'createCoinbaseCharge',
      tag: 'Credits',
      summary: 'Gone',
      statuses: [GONE],
      open: true,
    }),
  )
