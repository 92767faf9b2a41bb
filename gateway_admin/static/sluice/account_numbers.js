// Numbers, money and times as the page writes them. Money is exact: billionths of the currency's unit as BigInt.
export const words = JSON.parse(document.getElementById("words").textContent);

const { lang } = document.documentElement;
const whole = new Intl.NumberFormat(lang);
const compact = new Intl.NumberFormat(lang, { notation: "compact", maximumFractionDigits: 1 });
const short = new Intl.NumberFormat(lang, { maximumFractionDigits: 1 });
const NANO_DIGITS = 9;
const CENT = 10n ** 7n;

export const say = (text, parts) => text.replace(/{(\w+)}/g, (_whole, name) => parts[name]);

export const nanoOf = (text) => {
  const [units, decimals = ""] = text.split(".");
  const nano = BigInt(units.replace("-", "") + decimals.padEnd(NANO_DIGITS, "0"));
  return units.startsWith("-") ? -nano : nano;
};

export const decimalOf = (nano) => {
  const digits = String(nano < 0n ? -nano : nano).padStart(NANO_DIGITS + 1, "0");
  const decimals = digits.slice(-NANO_DIGITS).replace(/0+$/, "").padEnd(2, "0");
  return `${nano < 0n ? "-" : ""}${digits.slice(0, -NANO_DIGITS)}.${decimals}`;
};

// Browsers format decimal texts of any length exactly.
const amount = new Intl.NumberFormat(lang, { minimumFractionDigits: 2, maximumFractionDigits: NANO_DIGITS });
const cents = new Intl.NumberFormat(lang, { minimumFractionDigits: 2, maximumFractionDigits: 2, roundingMode: "trunc" });
const axis = new Intl.NumberFormat(lang, { minimumFractionDigits: 2, maximumFractionDigits: 4 });

export const money = (text) => amount.format(text);
// Beside bars cents are enough, unless there is less than one; never rounded up to a bound that is not reached.
export const roughly = (text) => {
  const nano = nanoOf(text);
  return nano === 0n || nano >= CENT || nano <= -CENT ? cents.format(text) : amount.format(text);
};
export const count = (number) => whole.format(number);

// On an axis a short form does.
export const brief = (measure, value) => {
  if (measure !== "cost") return compact.format(value);
  return value >= 0.01 || value === 0 ? axis.format(value) : amount.format(value.toPrecision(2));
};

const KIB = 1024;
export const bytes = (number) => {
  const [unit, size] = number < KIB * KIB ? ["kib", KIB] : ["mib", KIB * KIB];
  return say(words[unit], { number: short.format(number / size) });
};

export const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
export const time = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ")}Z`;

export const duration = (ms) => {
  if (ms < 1000) return say(words.ms, { number: whole.format(Math.round(ms)) });
  if (ms < 60000) return say(words.s, { number: short.format(ms / 1000) });
  return say(words.min, { number: short.format(ms / 60000) });
};
