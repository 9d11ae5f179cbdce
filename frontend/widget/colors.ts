/* Black or white: which of them can be read on a color (WCAG 2.2, relative luminance). One of the two always has 4.5:1. */

/** The luminance of channels from 0 to 255. */
export function luminance([red, green, blue]: readonly [number, number, number]): number {
  const linear = (channel: number) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

/** The one of black and white with the higher contrast to a color. */
export const readableOn = (channels: readonly [number, number, number]): '#000' | '#fff' =>
  1.05 / (luminance(channels) + 0.05) >= (luminance(channels) + 0.05) / 0.05 ? '#fff' : '#000';

/** The same for any CSS color: a canvas converts it. */
export function colorOn(color: string): '#000' | '#fff' {
  const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
  const context = canvas.getContext('2d');
  if (context === null) return '#fff';
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data;
  return readableOn([red, green, blue]);
}
