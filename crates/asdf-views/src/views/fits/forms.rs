//! Composes models into what FITS can express: linear forms of the pixels, and projections of two of them to the sky.

use super::model::{Map, Model, Transform};
use super::projection::Projection;
use super::unit::{Quantity, Unit};

/// Maximum condition number of a matrix that is inverted: beyond it the inverse loses digits.
const MAX_STRETCH: f64 = 1e6;

/// The linear function `scale * Σ coefficients[i] * (pixel[i] + shifts[i]) + offset`. Pixels are counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    pub(super) scale: f64,
    pub(super) coefficients: Vec<f64>,
    shifts: Vec<f64>,
    offset: f64,
    unit: Option<Unit>,
}

/// A projection of two forms to the sky.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SkyForms {
    pub(super) plane: [Form; 2],
    pub(super) projection: Projection,
    /// Longitude and latitude of the native pole, and native longitude of the celestial pole.
    pub(super) pole: [Quantity; 3],
}

/// An output of a transform, as FITS can express it.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Linear(Form),
    /// A native coordinate of a projection, by the number of the projection: longitude (0) or latitude (1).
    Native(usize, usize),
    /// A celestial coordinate, by its number in [`Expressions::skies`].
    Sky(usize, usize),
    /// FITS can't express it, for this reason.
    Other(String),
}

/// The outputs of a transform.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    pub(super) all: Vec<Expression>,
    pub(super) skies: Vec<SkyForms>,
    projections: Vec<([Form; 2], Projection)>,
}

impl Expressions {
    /// Composes the models of a transform with the values of its numbers. `unit` is that of the pixels, if the
    /// transform has units.
    pub(super) fn of(transform: &Transform, numbers: &[Vec<f64>], unit: Unit) -> Option<Self> {
        let mut outputs = Self::default();
        let unit = transform.has_units.then_some(unit);
        let pixel = |n| Expression::Linear(Form::of_pixel(n, transform.inputs, unit));
        let mut values: Vec<Expression> = (0..transform.inputs).map(pixel).collect();
        for step in &transform.steps {
            values = outputs.apply(step, values, numbers)?;
        }
        outputs.all = values;
        Some(outputs)
    }

    /// Applies a model. `None` if the inputs or the numbers are not as many as it has.
    fn apply(
        &mut self,
        model: &Model,
        inputs: Vec<Expression>,
        numbers: &[Vec<f64>],
    ) -> Option<Vec<Expression>> {
        if inputs.len() != model.inputs {
            return None;
        }
        Some(match &model.map {
            Map::Identity => inputs,
            Map::Mapping(mapping) => {
                mapping.iter().map(|n| inputs.get(*n).cloned()).collect::<Option<_>>()?
            }
            Map::Compose(models) => {
                let between = self.apply(&models[0], inputs, numbers)?;
                self.apply(&models[1], between, numbers)?
            }
            Map::Concatenate(models) => {
                let mut first = inputs;
                let second = first.split_off(models[0].inputs.min(first.len()));
                let mut outputs = self.apply(&models[0], first, numbers)?;
                outputs.extend(self.apply(&models[1], second, numbers)?);
                outputs
            }
            _ => match self.simple(model, &inputs, numbers) {
                Some(outputs) => outputs,
                None => {
                    let known = inputs.into_iter().find(|input| matches!(input, Expression::Other(_)));
                    let why = match &model.map {
                        Map::Unknown(why) => why.clone(),
                        _ => "its transform is not linear, or its units don't go together".to_owned(),
                    };
                    vec![known.unwrap_or(Expression::Other(why)); model.outputs]
                }
            },
        })
    }

    /// Applies a model that is not composed of others. `None` if FITS can't express the result.
    fn simple(
        &mut self,
        model: &Model,
        inputs: &[Expression],
        numbers: &[Vec<f64>],
    ) -> Option<Vec<Expression>> {
        let linear = |form: Option<Form>| Some(vec![Expression::Linear(form?)]);
        match (&model.map, inputs) {
            (Map::Shift(offset), [Expression::Linear(form)]) => linear(form.clone().shifted(*offset)),
            (Map::Scale(factor), [Expression::Linear(form)]) => {
                linear(form.clone().multiplied(Quantity { value: *factor, unit: None }))
            }
            (Map::Multiply(factor), [Expression::Linear(form)]) => linear(form.clone().multiplied(*factor)),
            (Map::Linear { slope, intercept }, [Expression::Linear(form)]) => {
                linear(form.clone().multiplied(*slope)?.shifted(*intercept))
            }
            (Map::Polynomial(polynomial), [Expression::Linear(x)])
                if polynomial.linear_variables() == Some(1) =>
            {
                let [constant, of_x] = numbers.get(polynomial.coefficients)?[..] else { return None };
                x.unit.is_none().then_some(())?;
                linear(x.clone().multiplied(Quantity { value: of_x, unit: None })?.shifted_by(constant))
            }
            (Map::Polynomial(polynomial), [Expression::Linear(x), Expression::Linear(y)])
                if polynomial.linear_variables() == Some(2) =>
            {
                let [constant, of_y, of_x, _] = numbers.get(polynomial.coefficients)?[..] else {
                    return None;
                };
                x.unit.is_none().then_some(())?;
                linear(Form::combined([of_x, of_y], [x, y])?.shifted_by(constant))
            }
            (Map::Affine { matrix, translation, unit }, [Expression::Linear(x), Expression::Linear(y)]) => {
                let [a, b, c, d] = numbers.get(*matrix)?[..] else { return None };
                let [e, f] = numbers.get(*translation)?[..] else { return None };
                // astropy drops the unit of the inputs.
                (x.unit == *unit && y.unit == *unit).then_some(())?;
                Some(vec![
                    Expression::Linear(Form::combined([a, b], [x, y])?.shifted_by(e)?),
                    Expression::Linear(Form::combined([c, d], [x, y])?.shifted_by(f)?),
                ])
            }
            (Map::Rotate2d { sin, cos }, [Expression::Linear(x), Expression::Linear(y)]) => Some(vec![
                Expression::Linear(Form::combined([*cos, -sin], [x, y])?),
                Expression::Linear(Form::combined([*sin, *cos], [x, y])?),
            ]),
            (Map::Projection(projection), [Expression::Linear(x), Expression::Linear(y)])
                if projection.to_sky =>
            {
                Some(self.projected([x.clone(), y.clone()], projection))
            }
            (
                Map::RotateSphere { pole: Some(pole), .. },
                [Expression::Native(one, 0), Expression::Native(other, 1)],
            ) if one == other => {
                let (plane, projection) = self.projections.get(*one)?.clone();
                Some(self.on_the_sky(plane, projection, *pole))
            }
            (Map::FitsImaging(first, projection), [Expression::Linear(x), Expression::Linear(y)]) => {
                let number = |n: usize| Some(&numbers.get(first + n)?[..]);
                let (&[crpix1, crpix2], &[longitude, latitude]) = (number(0)?, number(1)?) else {
                    return None;
                };
                let (&[cdelt1, cdelt2], &[a, b, c, d]) = (number(2)?, number(3)?) else { return None };
                let plain = |value| Quantity { value, unit: None };
                let x = x.clone().shifted(plain(-crpix1))?;
                let y = y.clone().shifted(plain(-crpix2))?;
                let plane = [
                    Form::combined([a, b], [&x, &y])?.multiplied(plain(cdelt1))?,
                    Form::combined([c, d], [&x, &y])?.multiplied(plain(cdelt2))?,
                ];
                // gwcs always uses 180 degrees. The default of FITS differs at a latitude of 90 degrees.
                Some(self.on_the_sky(plane, projection.clone(), [longitude, latitude, 180.0].map(plain)))
            }
            _ => None,
        }
    }

    fn projected(&mut self, plane: [Form; 2], projection: &Projection) -> Vec<Expression> {
        self.projections.push((plane, projection.clone()));
        let number = self.projections.len() - 1;
        vec![Expression::Native(number, 0), Expression::Native(number, 1)]
    }

    fn on_the_sky(
        &mut self,
        plane: [Form; 2],
        projection: Projection,
        pole: [Quantity; 3],
    ) -> Vec<Expression> {
        self.skies.push(SkyForms { plane, projection, pole });
        let number = self.skies.len() - 1;
        vec![Expression::Sky(number, 0), Expression::Sky(number, 1)]
    }
}

impl Form {
    fn of_pixel(n: usize, count: usize, unit: Option<Unit>) -> Self {
        let mut coefficients = vec![0.0; count];
        coefficients[n] = 1.0;
        Self { scale: 1.0, coefficients, shifts: vec![0.0; count], offset: 0.0, unit }
    }

    /// True if numbers of the form have a unit.
    pub(super) fn has_unit(&self) -> bool {
        self.unit.is_some()
    }

    /// Adds a quantity. `None` if the units differ in kind.
    fn shifted(self, by: Quantity) -> Option<Self> {
        let by = by.in_units_of(self.unit)?;
        self.shifted_by(by)
    }

    /// Adds a number of the form's unit.
    fn shifted_by(mut self, by: f64) -> Option<Self> {
        let mut used = (0..self.coefficients.len()).filter(|n| self.coefficients[*n] != 0.0);
        let pixel = used.next().filter(|n| self.scale == 1.0 && self.coefficients[*n] == 1.0);
        // A shift of one pixel coordinate stays exact.
        match pixel.filter(|_| used.next().is_none() && self.offset == 0.0) {
            Some(n) => self.shifts[n] += by,
            None => self.offset += by,
        }
        Some(self)
    }

    fn multiplied(mut self, by: Quantity) -> Option<Self> {
        self.scale *= by.value;
        self.offset *= by.value;
        if let Some(unit) = by.unit {
            self.unit = Some(self.unit?.times(unit)?);
        }
        Some(self)
    }

    /// Returns the sum of multiples of two forms. `None` if their units differ.
    fn combined([a, b]: [f64; 2], [x, y]: [&Self; 2]) -> Option<Self> {
        if x.unit != y.unit {
            return None;
        }
        let mut form = Self { scale: 1.0, ..x.clone() };
        form.offset = a * x.offset + b * y.offset;
        for n in 0..form.coefficients.len() {
            let of_x = a * x.scale * x.coefficients[n];
            let of_y = b * y.scale * y.coefficients[n];
            form.coefficients[n] = of_x + of_y;
            form.shifts[n] = if of_x == 0.0 { y.shifts[n] } else { x.shifts[n] };
            if of_x != 0.0 {
                form.offset += of_y * (y.shifts[n] - x.shifts[n]);
            }
        }
        Some(form)
    }

    /// Returns the form in another unit. Forms without unit are returned unchanged.
    pub(super) fn in_units_of(mut self, unit: Unit) -> Option<Self> {
        if let Some(own) = self.unit {
            let factor = own.in_units_of(unit)?;
            self.scale *= factor;
            self.offset *= factor;
        }
        Some(self)
    }

    /// Returns the value at a pixel.
    pub(super) fn at(&self, pixel: &[f64]) -> f64 {
        let terms = self.coefficients.iter().zip(&self.shifts).zip(pixel);
        let sum: f64 = terms
            .filter(|((coefficient, _), _)| **coefficient != 0.0)
            .map(|((coefficient, shift), coordinate)| coefficient * (coordinate + shift))
            .sum();
        self.scale * sum + self.offset
    }

    /// Returns the coefficient of a pixel coordinate.
    fn slope(&self, n: usize) -> f64 {
        self.scale * self.coefficients[n]
    }

    /// Sets the unknown coordinates of a reference pixel to those where the form is only its offset.
    pub(super) fn refer(&self, reference: &mut [Option<f64>]) {
        for (n, place) in reference.iter_mut().enumerate() {
            if self.coefficients[n] != 0.0 {
                place.get_or_insert(-self.shifts[n]);
            }
        }
    }
}

impl SkyForms {
    /// Moves a reference pixel to the place where both forms are 0. `None` if digits would be lost.
    pub(super) fn centre(&self, reference: &mut [f64]) -> Option<()> {
        let [x, y] = &self.plane;
        let values = [x.at(reference), y.at(reference)];
        if values == [0.0, 0.0] {
            return Some(());
        }
        let mut best: Option<(f64, usize, usize)> = None;
        for p in 0..reference.len() {
            for q in p + 1..reference.len() {
                let determinant = x.slope(p) * y.slope(q) - x.slope(q) * y.slope(p);
                if best.is_none_or(|(largest, ..)| determinant.abs() > f64::abs(largest)) {
                    best = Some((determinant, p, q));
                }
            }
        }
        let (determinant, p, q) = best?;
        let [a, b, c, d] = [x.slope(p), x.slope(q), y.slope(p), y.slope(q)];
        let squares = a * a + b * b + c * c + d * d;
        if determinant == 0.0 || squares / determinant.abs() > MAX_STRETCH {
            return None;
        }
        reference[p] -= (d * values[0] - b * values[1]) / determinant;
        reference[q] -= (a * values[1] - c * values[0]) / determinant;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: f64) -> Quantity {
        Quantity { value, unit: None }
    }

    #[test]
    fn models_in_any_order_are_one_form() {
        let pixel = |n| Form::of_pixel(n, 2, None);
        let shifted =
            |n, by: [f64; 2]| pixel(n).shifted(plain(by[0])).unwrap().shifted(plain(by[1])).unwrap();
        let pair = [shifted(0, [-3.5, 0.5]), shifted(1, [-4.25, 0.25])];
        let turned =
            [[0.5, -0.25], [0.125, 2.0]].map(|row| Form::combined(row, [&pair[0], &pair[1]]).unwrap());
        let [x, y] = turned;
        let x = x.shifted(plain(8.0)).unwrap().multiplied(plain(-0.25)).unwrap();
        let y = y.shifted(plain(-2.0)).unwrap().multiplied(plain(0.5)).unwrap();
        for pixel in [[0.0, 0.0], [7.5, 3.0], [-1.0, 20.0]] {
            let [u, v] = [pixel[0] - 3.0, pixel[1] - 4.0];
            assert!((x.at(&pixel) + 0.25 * (0.5 * u - 0.25 * v + 8.0)).abs() < 1e-12);
            assert!((y.at(&pixel) - 0.5 * (0.125 * u + 2.0 * v - 2.0)).abs() < 1e-12);
        }
        let projection = Projection { code: "TAN", parameters: Vec::new(), to_sky: true };
        let sky = SkyForms { plane: [x, y], projection, pole: [plain(0.0); 3] };
        let mut reference = [3.0, 4.0];
        sky.centre(&mut reference).unwrap();
        assert!(sky.plane.iter().all(|form| form.at(&reference).abs() < 1e-12));
        // Shifts of the same pixel that differ.
        let both = Form::combined([1.0, 2.0], [&shifted(0, [1.0, 0.0]), &shifted(0, [5.0, 0.0])]).unwrap();
        assert!((both.at(&[10.0, 0.0]) - (11.0 + 30.0)).abs() < 1e-12);
        let flat = [[1.0, 1.0], [1.0, 1.0 + 1e-9]].map(|row| {
            let form = Form::combined(row, [&pixel(0), &pixel(1)]).unwrap();
            form.multiplied(plain(2.0)).unwrap().shifted(plain(1.0)).unwrap()
        });
        assert!(SkyForms { plane: flat, ..sky }.centre(&mut reference).is_none());
    }

    #[test]
    fn units_are_those_of_the_product() {
        let unit = |text| Unit::parse(text);
        let quantity = |value, text| Quantity { value, unit: unit(text) };
        let pixel = Form::of_pixel(0, 1, unit("pixel"));
        let wave = pixel.clone().multiplied(quantity(0.25, "nm.pixel**-1")).unwrap();
        let wave = wave.shifted(quantity(0.5, "um")).unwrap().in_units_of(unit("nm").unwrap()).unwrap();
        assert!((wave.at(&[2.0]) - 500.5).abs() < 1e-9, "{wave:?}");
        assert!(wave.in_units_of(unit("GHz").unwrap()).is_none());
        assert!(pixel.clone().shifted(quantity(1.0, "arcsec")).is_none());
        assert!(pixel.shifted(plain(1.0)).is_none());
        assert!(Form::of_pixel(0, 1, None).multiplied(quantity(1.0, "nm.pixel**-1")).is_none());
    }
}
