/**
 * The forms of keys whose vendors made them recognisable, so that leaks can be found. From each
 * vendor's own documentation, or from what its secret scanning partners publish; RE2's syntax. None
 * of them needs context to be recognised.
 */
export const SECRET_FORMS: Record<string, string> = {
  gateway: 'gw-v1-[0-9a-f]{32,64}',
  openrouter: 'sk-or-v1-[0-9a-f]{32,64}',
  openai: 'sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]*T3BlbkFJ[A-Za-z0-9_-]+',
  openaiProject: 'sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,}',
  openaiOld: 'sk-[A-Za-z0-9]{40,}',
  anthropic: 'sk-ant-[a-z0-9]{2,10}-[A-Za-z0-9_-]{32,}',
  awsKeyId: '(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}',
  awsBearer: 'ABSK[A-Za-z0-9+/]{60,}={0,2}',
  github: 'gh[pousr]_[A-Za-z0-9]{36,}',
  githubFineGrained: 'github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{40,}',
  gitlab: 'gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent)-[A-Za-z0-9_.-]{20,}',
  slack: 'xox[abeoprs]-[A-Za-z0-9-]{10,}',
  slackApp: 'xapp-\\d-[A-Z0-9]+-\\d+-[a-f0-9]{32,}',
  slackWebhook: 'hooks\\.slack\\.com/(?:services|workflows)/[A-Za-z0-9+/]{40,}',
  stripe: '(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}',
  stripeWebhook: 'whsec_[A-Za-z0-9+/]{24,}={0,2}',
  google: 'AIza[A-Za-z0-9_-]{35}',
  googleOauth: 'ya29\\.[A-Za-z0-9_-]{20,}',
  googleClientSecret: 'GOCSPX-[A-Za-z0-9_-]{24,}',
  azureStorage: 'AccountKey=[A-Za-z0-9+/]{80,}={0,2}',
  huggingFace: 'hf_[A-Za-z0-9]{30,}',
  groq: 'gsk_[A-Za-z0-9]{40,}',
  xai: 'xai-[A-Za-z0-9]{60,}',
  perplexity: 'pplx-[A-Za-z0-9]{40,}',
  replicate: 'r8_[A-Za-z0-9]{30,}',
  npm: 'npm_[A-Za-z0-9]{36}',
  pypi: 'pypi-AgE[A-Za-z0-9_-]{50,}',
  sendgrid: 'SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{32,}',
  twilio: 'SK[0-9a-f]{32}',
  telegram: '\\d{8,10}:AA[A-Za-z0-9_-]{33}',
  digitalOcean: 'do[opr]_v1_[a-f0-9]{64}',
  shopify: 'shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}',
  databricks: 'dapi[a-f0-9]{32}',
  vault: 'hv[sbr]\\.[A-Za-z0-9_-]{24,}',
  age: 'AGE-SECRET-KEY-1[A-Z0-9]{58}',
  jwt: 'eyJ[A-Za-z0-9_-]{8,}\\.eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}',
}

/** How the forms begin: each match of one of them begins with a match of this. */
export const SECRET_BEGINNINGS =
  /\b(?:gw-v1-|sk-|[sr]k_|A(?:[KS]IA|BIA|CCA|BSK|Iza|ccountKey=|GE-SEC)|g(?:h[pousr]_|ithub_pat_|l[a-z]{2,5}-|sk_)|x(?:ox|app-|ai-)|h(?:ooks\.slack|f_|v[sbr]\.)|whsec_|ya29\.|GOCSPX-|pplx-|r8_|npm_|pypi-AgE|SG\.|SK[0-9a-f]{2}|\d{8,10}:AA|do[opr]_v1_|shp[acps][ats]_|dapi[a-f0-9]|eyJ)/g

/** Names that a secret is assigned to: `password=…`, `"api_key": "…"`. */
export const SECRET_NAMES = [
  'pass(?:word|wd|phrase)',
  'pwd',
  'secret(?:[_-]?key)?',
  '(?:api|access|account|auth|client|encryption|private|signing|service' +
    '|master)[_-]?(?:key|token|secret)',
  '(?:bearer|refresh|session|id)[_-]?token',
  'token',
  'credentials?',
]
